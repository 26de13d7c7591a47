"""Row predicates: the tree, and what it says about rows and about the statistics of files."""

from paimon_spark.spec.predicate_stats import prune_stats
from paimon_spark.spec.predicate_tree import (
    OPERATORS,
    Always,
    And,
    Leaf,
    Not,
    Or,
    Predicate,
    all_of,
    any_of,
    evaluate,
    fields,
    fold,
    implied_by,
    matching,
    project,
    rename,
    split_and,
)

__all__ = [
    "OPERATORS",
    "Always",
    "And",
    "Leaf",
    "Not",
    "Or",
    "Predicate",
    "all_of",
    "any_of",
    "evaluate",
    "fields",
    "fold",
    "implied_by",
    "matching",
    "project",
    "prune_stats",
    "rename",
    "split_and",
]
