"""`PaimonTable`: everything as methods, and what a notebook shows of a table."""
