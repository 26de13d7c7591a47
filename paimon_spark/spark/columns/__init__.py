"""Columns of Paimon as columns of Spark and back: types, Arrow batches, CHAR."""
