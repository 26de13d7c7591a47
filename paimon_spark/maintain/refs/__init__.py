"""Names for versions of a table: tags, branches, and going back to them."""
