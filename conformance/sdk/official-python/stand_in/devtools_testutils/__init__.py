"""Stands in for the vendor's package of test helpers, which is not published: the two names that the suite imports."""
