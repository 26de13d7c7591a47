"""Expiry by age or number: snapshots, long-lived changelogs, partitions and consumers."""
