"""Expiry by age or number: snapshots, long-lived changelogs and partitions."""
