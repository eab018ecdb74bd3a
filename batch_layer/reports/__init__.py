"""What people look at in the morning: an overview page of all audits, and a Data Docs page for each. One folder of
files that opens offline.
"""
