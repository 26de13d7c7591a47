"""Reading: a scan is planned into splits on the driver, and tasks read the splits."""
