"""What the bytes of a table mean: types, schemas, snapshots, manifests, rows. Pure functions; no file is opened."""
