"""The way to Spark's JVM: calling it, being called by it, and its errors."""
