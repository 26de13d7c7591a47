"""Looking after tables: tags, rollback and what they leave behind."""
