"""What a table shows of itself to people: facts at a glance, its LSM trees as a picture. No PySpark."""
