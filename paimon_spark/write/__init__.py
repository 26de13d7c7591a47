"""Writing: rows are mapped, routed to partitions and buckets, and become data files and commit messages."""
