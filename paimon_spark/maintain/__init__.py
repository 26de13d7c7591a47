"""Looking after tables: what follows a commit, DELETE and UPDATE, purging; the rest is in four packages."""
