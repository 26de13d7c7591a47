"""What is put into a classic session: the catalog, parser, functions, rules of the analyser and the optimiser."""
