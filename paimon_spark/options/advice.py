"""What to do about an option that is refused, in sentences that several options share."""

USE_ANOTHER_ENGINE = "Read and write this table with another Paimon engine."
WRITE_WITH_ANOTHER_ENGINE = "Write this table with another Paimon engine."
REMOVE = "Remove the option."
