"""Looking after tables: what follows a commit, DELETE and UPDATE, purging; the rest stands in four rooms."""
