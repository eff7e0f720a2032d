"""Measurements of the product itself; README.md says how to run them and how to read them."""
