"""Filters and columns that a Connect client tells the loads of a plan."""
