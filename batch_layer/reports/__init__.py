"""What people look at in the morning: an overview page of all audits, and a page for each. One folder of
files that opens offline.
"""
