"""What a table is and has: paths, schemas, snapshots, tags, branches, manifests, time travel."""
