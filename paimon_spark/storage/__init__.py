"""The files of a table in their store: FileIO over disks and fsspec, and one module per data file format."""
