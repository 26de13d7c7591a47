"""What a session has set, and options of Spark and of other formats as options of Paimon."""
