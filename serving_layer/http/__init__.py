"""Answers over HTTP, and a page that shows them."""
