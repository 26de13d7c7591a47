"""What ``CALL sys.<name>(…)`` can call: procedures by name, each with its arguments, its result and its function."""
