"""What a session has set, and what words of Spark mean as options of Paimon."""
