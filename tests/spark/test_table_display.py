"""A table shows itself truly: what it is, its numbers, its LSM trees; well formed, bounded, nothing unescaped."""

from __future__ import annotations

import itertools
import re
import shutil
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.display.overview import MOST_COLUMNS, LsmPicture, _cut, lsm_shape, overview
from paimon_spark.display.texts import bytes_text
from paimon_spark.spark.table.paimon_table import PaimonTable
from paimon_spark.spec.snapshot import Operation
from paimon_spark.table.system.registry import SYSTEM_TABLES
from paimon_spark.table.table import load_table
from tests.support.commits import fake_file, make_table, message
from tests.support.synthetic import metadata_table

SVG = "{http://www.w3.org/2000/svg}"
TABLES = ["pk_many_levels", "pk_dedup_partitioned", "append_partitioned_plain", "system_tables", "pk_dynamic_bucket"]


def opened(path: Path | str) -> PaimonTable:
    """A table without a session: showing itself needs none."""
    return PaimonTable(None, str(path), {})  # type: ignore[arg-type]


def picture(path: Path | str, **options: str) -> ET.Element:
    return ET.fromstring(LsmPicture(lsm_shape(load_table(str(path), options=options)))._repr_svg_())


def text_of(element: ET.Element) -> str:
    return " ".join("".join(element.itertext()).split())


def files_by_level(path: Path | str, **options: str) -> dict[int, tuple[int, int, int]]:
    """Files, bytes and records of each level, as ``files`` tells them."""
    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in SYSTEM_TABLES["files"].read(load_table(str(path), options=options)).to_pylist():
        for i, value in enumerate((1, row["file_size_in_bytes"], row["record_count"])):
            sums[row["level"]][i] += value
    return {level: (files, size, records) for level, (files, size, records) in sums.items()}


def drawn_levels(svg: ET.Element) -> dict[int, tuple[int, int, int]]:
    levels = [element for element in svg.iter(f"{SVG}g") if element.get("class") == "level"]
    return {
        int(level.get("data-level", "")): (
            int(level.get("data-files", "")),
            int(level.get("data-bytes", "")),
            int(level.get("data-records", "")),
        )
        for level in levels
    }


@pytest.mark.parametrize("name", TABLES)
def test_the_picture_has_the_numbers_of_the_table(golden: Path, name: str) -> None:
    path = golden / name / "table"
    svg, known = picture(path), files_by_level(path)
    drawn = drawn_levels(svg)
    assert {level: sums for level, sums in drawn.items() if sums[0]} == known
    for level in (element for element in svg.iter(f"{SVG}g") if element.get("class") == "level"):
        cells = [element for element in level.iter(f"{SVG}g") if element.get("class") == "cell"]
        assert sum(int(cell.get("data-files", "")) for cell in cells) == int(level.get("data-files", ""))
        assert sum(int(cell.get("data-bytes", "")) for cell in cells) == int(level.get("data-bytes", ""))
        for cell in cells:
            tiles = [tile for tile in cell.iter(f"{SVG}rect") if tile.get("class") == "file"]
            assert len(tiles) == min(8, int(cell.get("data-files", "")))
    title = text_of(svg.find(f"{SVG}title"))  # type: ignore[arg-type]
    assert f"{sum(sums[0] for sums in known.values())} file" in title
    assert bytes_text(sum(sums[1] for sums in known.values())) in title


def test_the_picture_travels(golden: Path) -> None:
    path = golden / "system_tables" / "table"
    drawn = drawn_levels(picture(path, **{"scan.snapshot-id": "2"}))
    assert {level: sums for level, sums in drawn.items() if sums[0]} == files_by_level(
        path, **{"scan.snapshot-id": "2"}
    )
    assert drawn != drawn_levels(picture(path))
    assert opened(path).lsm(scan_tag_name="t1").shape.total.files == 4


def assert_inside(svg: ET.Element) -> None:
    """Every shape and the start of every text lies in the picture, and tiles of one cell do not touch."""
    _, _, width, height = map(float, svg.get("viewBox", "").split())
    for rect in svg.iter(f"{SVG}rect"):
        x, y, w, h = (float(rect.get(key, "")) for key in ("x", "y", "width", "height"))
        assert 0 <= x <= x + w <= width
        assert 0 <= y <= y + h <= height
        assert w > 0
    for text in svg.iter(f"{SVG}text"):
        assert 0 <= float(text.get("x", "")) <= width
        assert 0 <= float(text.get("y", "")) <= height
    for cell in (element for element in svg.iter(f"{SVG}g") if element.get("class") == "cell"):
        tiles = [tile for tile in cell.iter(f"{SVG}rect") if tile.get("class") == "file"]
        for left, right in itertools.pairwise(tiles):
            assert float(left.get("x", "")) + float(left.get("width", "")) < float(right.get("x", ""))


def test_many_buckets_are_summed(tmp_path: Path, golden: Path) -> None:
    (tmp_path / "days").mkdir()
    (tmp_path / "many").mkdir()
    few_days = metadata_table(tmp_path / "days", manifests=12, files=40, primary_key=True)
    many_days = metadata_table(tmp_path / "many", manifests=60, files=20, primary_key=True)
    shapes = [
        lsm_shape(few_days),
        lsm_shape(many_days),
        lsm_shape(load_table(str(golden / "pk_dedup_partitioned/table"))),
    ]
    assert [shape.summed for shape in shapes] == ["partition", "partitions", "bucket"]
    assert [shape.buckets for shape in shapes] == [120, 600, 6]
    assert shapes[0].columns[0] == "dt=2024-01-01"
    assert shapes[1].columns[0] == "dt=2024-01-01 … dt=2024-01-02"
    assert shapes[2].groups == (("p=a", 2), ("p=b", 2), ("p=c", 2))
    assert all(len(shape.columns) <= MOST_COLUMNS for shape in shapes)
    assert [shape.total.files for shape in shapes[:2]] == [480, 1200]
    assert shapes[1].total.bytes == 1200 * 30_000_000
    assert sum(row[0].files for row in shapes[0].cells) == 40
    for shape in shapes:
        svg = LsmPicture(shape)._repr_svg_()
        assert len(svg) < 100_000
        assert_inside(ET.fromstring(svg))
    one = lsm_shape(few_days, most_columns=5)
    assert len(one.columns) == 5
    assert one.total == shapes[0].total


def test_buckets_without_partitions_are_summed(tmp_path: Path, golden: Path) -> None:
    path = golden / "pk_dynamic_bucket" / "table"
    shape = lsm_shape(load_table(str(path)), most_columns=2)
    assert shape.summed == "buckets"
    assert shape.columns == ("0 … 1", "2 … 4")
    assert shape.total.files == sum(sums[0] for sums in files_by_level(path).values())


def test_a_table_without_snapshots(golden: Path, tmp_path: Path) -> None:
    shutil.copytree(golden / "system_tables" / "table" / "schema", tmp_path / "t" / "schema")
    table = opened(tmp_path / "t")
    assert_inside(ET.fromstring(table.lsm()._repr_svg_()))
    assert "no snapshot yet" in repr(table.lsm())
    assert "No snapshot yet" in text_of(ET.fromstring(table._repr_html_()))
    assert repr(table).endswith("no snapshot yet)")


def test_the_terminal_gets_numbers(golden: Path) -> None:
    lines = repr(opened(golden / "pk_many_levels" / "table").lsm()).splitlines()
    assert lines[0] == "table: snapshot 10, 1 bucket, 4 files, 40.8 KB, 1,557 records"
    assert [line.split()[:2] for line in lines[2:]] == [["0", "1"], ["3", "1"], ["4", "1"], ["5", "1"]]


def test_repr(golden: Path, tmp_path: Path) -> None:
    path = golden / "pk_dedup_partitioned" / "table"
    text = repr(opened(path))
    assert re.fullmatch(
        rf"PaimonTable\('{re.escape(str(path))}': primary-key table \(deduplicate\), 4 columns, primary key p, k, "
        r"partitioned by p, snapshot 6 of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\)",
        text,
    )
    assert "append table, 4 columns" in repr(opened(golden / "append_partitioned_plain" / "table"))
    assert "branch b" in repr(opened(f"{golden / 'branches' / 'table'}$branch_b"))
    assert repr(opened(tmp_path / "gone")) == f"PaimonTable('{tmp_path / 'gone'}': TableNotFoundError)"
    assert "no schema file" in text_of(ET.fromstring(opened(tmp_path / "gone")._repr_html_()))


def test_the_page_has_the_numbers_of_the_table(golden: Path) -> None:
    path = golden / "pk_dedup_partitioned" / "table"
    page = ET.fromstring(opened(path)._repr_html_())
    text = text_of(page)
    known = files_by_level(path)
    files, size, records = (sum(sums[i] for sums in known.values()) for i in range(3))
    assert f"{bytes_text(size)}, {files} files, {records} records" in text
    assert "Primary-key table (deduplicate), 4 columns" in text
    for fact in (["Primary", "key", "p,", "k"], ["Partitioned", "by", "p"], ["2,", "by", "k"]):
        assert fact[-1] in text
    table = load_table(str(path))
    rows = [[text_of(cell) for cell in row] for row in page.iter("tr")]
    shown = [row for row in rows if row and row[0] in map(str, table.snapshots.ids())]
    assert [int(row[0]) for row in shown] == table.snapshots.ids()[::-1][:5]
    assert [row[2] for row in shown] == [table.snapshots.get(int(row[0])).commit_kind.value for row in shown]
    options = {row[0]: row[1] for row in rows if len(row) == 2}
    assert {key: options[key] for key in table.schema.options} == dict(table.schema.options)


def test_nothing_is_unescaped_and_no_credential_shown(golden: Path, tmp_path: Path) -> None:
    path = tmp_path / "<b>t&'\""
    shutil.copytree(golden / "system_tables" / "table", path)
    schema = max((path / "schema").iterdir())
    evil = "<script>alert(1)</script>"
    text = schema.read_text().replace('"somebody"', f'"{evil}", "fs.s3a.secret.key": "hush", "{evil}": "x"')
    schema.write_text(text.replace('"comment" : null', f'"comment" : "{evil}"'))
    (path / "tag" / "tag-<img src=x>").write_bytes((path / "tag" / "tag-t1").read_bytes())
    table = opened(path)
    for html in (table._repr_html_(), table.lsm()._repr_html_(), table.lsm()._repr_svg_()):
        assert "<script" not in html
        assert "<b>t" not in html
        assert "<img" not in html
        assert "hush" not in html
        ET.fromstring(html)
    assert ("fs.s3a.secret.key", "******") in overview(load_table(str(path))).options
    assert "hush" not in repr(table)
    assert evil in text_of(ET.fromstring(table._repr_html_()))


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KB"), (1536, "1.5 KB"), (128 << 20, "128 MB"), (5 << 40, "5.0 TB")],
)
def test_sizes_for_people(count: int, text: str) -> None:
    assert bytes_text(count) == text
    assert bytes_text(None) == "unknown size"


def test_labels_of_partitions_are_whole_or_keep_their_ends(tmp_path: Path) -> None:
    days = ["2024-05-01", "2024-05-02"]
    table = make_table(tmp_path / "t", partition=["day"], bucket="1", bucket_key="k")
    for day in days:
        commit(table, [message(table, fake_file(f"f{day}"), partition=day)])
    svg = LsmPicture(lsm_shape(load_table(table.path)))._repr_svg_()
    assert all(f">day={day}<" in svg for day in days)
    assert "…" not in svg
    assert _cut("day=2024-05-01T00:00", 70) == "day=2…0:00"


def test_the_page_names_the_statement_of_a_snapshot(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1")
    commit(table, [message(table, fake_file("a"))])
    commit(table, [message(table, fake_file("b"))], operation=Operation.UPDATE)
    page = opened(table.path)._repr_html_()
    assert re.findall(r"<td[^>]*>(APPEND|UPDATE)</td>", page) == ["UPDATE", "APPEND"]
