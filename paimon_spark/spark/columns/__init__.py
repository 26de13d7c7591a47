"""How columns of Paimon and of Spark become one another: types, Arrow batches, CHAR, added columns."""
