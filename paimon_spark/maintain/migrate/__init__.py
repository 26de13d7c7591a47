"""Taking tables of other kinds over: their files become files of a Paimon table."""
