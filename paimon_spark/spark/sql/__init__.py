"""What each statement means, for both fronts: names, versions, procedures, changes of rows. No py4j, no sqlglot."""
