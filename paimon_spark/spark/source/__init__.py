"""The plain data source, which works on every session: its options, its reader, its writer."""
