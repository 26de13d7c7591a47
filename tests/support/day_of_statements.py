"""The statements of a day in a catalog ``far``, and what they must show: by either front, on either kind of session."""

from __future__ import annotations

from tests.support.warehouses import Run


def run_day(run: Run, *, renames: bool) -> None:
    """Make a database and a table, change and look after it, and drop both.

    Args:
        run: runs a statement.
        renames: whether the table is renamed meanwhile.
    """

    def rows(text: str) -> list[tuple[object, ...]]:
        return sorted(tuple(row) for row in run(text).collect())

    run("CREATE DATABASE far.d")
    run(
        "CREATE TABLE far.d.t (id INT NOT NULL, v STRING) USING paimon TBLPROPERTIES ('primary-key'='id', 'bucket'='2')"
    )
    run("INSERT INTO far.d.t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    run("UPDATE far.d.t SET v = 'u' WHERE id = 2")
    run(
        "MERGE INTO far.d.t USING (SELECT 3 AS id, 'm' AS v UNION ALL SELECT 4, 'n') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
    )
    run("CALL far.sys.create_tag(table => 'd.t', tag => 'one')")
    run("DELETE FROM far.d.t WHERE id = 1")
    run("CALL far.sys.compact(table => 'd.t')")
    late = [(2, "u"), (3, "m"), (4, "n")]
    assert rows("SELECT * FROM far.d.t") == late
    assert rows("SELECT * FROM far.d.t VERSION AS OF 'one'") == [(1, "a"), *late]
    assert rows("SELECT * FROM far.d.t VERSION AS OF 1") == [(1, "a"), (2, "b"), (3, "c")]
    run("ALTER TABLE far.d.t ADD COLUMN w INT")
    name = "far.d.t"
    if renames:
        run("ALTER TABLE far.d.t RENAME TO far.d.r")
        name = "far.d.r"
    assert rows(f"SELECT * FROM {name}") == [(*row, None) for row in late]
    run(f"INSERT INTO {name} VALUES (5, 'z', 1)")
    assert rows(f"SELECT w FROM {name} WHERE id = 5") == [(1,)]
    run(f"DROP TABLE {name}")
    assert rows("SHOW TABLES IN far.d") == []
    run("DROP DATABASE far.d")
    assert ("d",) not in rows("SHOW DATABASES IN far")
