"""Metastores: which tables a catalog has, where their names are not those of directories alone."""
