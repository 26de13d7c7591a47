"""Metadata of Apache Iceberg over the data files of a Paimon table: pure functions, no file is opened."""
