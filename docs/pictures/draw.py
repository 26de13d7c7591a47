"""Draw the pictures of docs/concepts.md: `python docs/pictures/draw.py`. Boxes, texts and arrows, in plain SVG."""

from pathlib import Path

FOLDER = Path(__file__).parent
BLUE, GREEN, ORANGE, GREY, RED = "#dbe7fb", "#d9f0dd", "#fde6cc", "#eeeeee", "#f9d6d5"
Shape = str


def text(x: float, y: float, words: str, *, size: int = 13, anchor: str = "middle", weight: str = "normal") -> Shape:
    """A line of text."""
    words = words.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}">{words}</text>'


def box(x: float, y: float, width: float, words: str, fill: str = BLUE, height: float = 30) -> Shape:
    """A box with lines of text, separated by `|`."""
    lines = words.split("|")
    top = y + height / 2 + 4.5 - 8 * (len(lines) - 1)
    rect = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="{fill}" stroke="#555"/>'
    return rect + "".join(text(x + width / 2, top + 16 * n, line) for n, line in enumerate(lines))


def arrow(x1: float, y1: float, x2: float, y2: float) -> Shape:
    """An arrow."""
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#333" stroke-width="1.5" marker-end="url(#a)"/>'


def save(name: str, title: str, height: int, *shapes: Shape) -> None:
    """Write one picture, 720 wide."""
    marker = (
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#333"/></marker></defs>'
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {height}" font-family="sans-serif" role="img">'
    body = "\n".join([head, f"<title>{title}</title>", marker, *shapes, "</svg>"])
    (FOLDER / f"{name}.svg").write_text(body + "\n", encoding="utf-8")


def snapshots() -> None:
    """Snapshots in a line, a tag, a branch."""
    line = [box(20 + 150 * n, 90, 110, f"snapshot {n + 1}") for n in range(4)]
    steps = [arrow(130 + 150 * n, 105, 168 + 150 * n, 105) for n in range(3)]
    kinds = [text(75 + 150 * n, 140, k, size=11) for n, k in enumerate(("APPEND", "APPEND", "COMPACT", "OVERWRITE"))]
    tag = [box(170, 20, 110, "tag monday", ORANGE), arrow(225, 50, 225, 88)]
    branch = [box(320, 165, 150, "branch: snapshot 3", GREEN), arrow(255, 120, 318, 172), text(545, 184, "branch sale")]
    save("snapshots", "Snapshots, a tag and a branch", 210, *line, *steps, *kinds, *tag, *branch)


def layout() -> None:
    """From a snapshot to data files."""
    save(
        "layout",
        "A snapshot names manifests, manifests name data files",
        190,
        box(20, 75, 110, "snapshot 4"),
        box(180, 75, 120, "manifest list"),
        box(350, 30, 110, "manifest", GREY),
        box(350, 120, 110, "manifest", GREY),
        *(
            box(520, 10 + 45 * n, 180, name, GREEN)
            for n, name in enumerate(
                ("day=1/bucket-0/data-…", "day=1/bucket-1/data-…", "day=2/bucket-0/data-…", "day=2/bucket-1/data-…")
            )
        ),
        arrow(130, 90, 178, 90),
        arrow(300, 84, 348, 47),
        arrow(300, 96, 348, 133),
        arrow(460, 42, 518, 27),
        arrow(460, 48, 518, 68),
        arrow(460, 132, 518, 117),
        arrow(460, 138, 518, 158),
    )


def buckets() -> None:
    """Keys are hashed to buckets."""
    rows = [box(20, 20 + 40 * n, 110, f"id = {k}", GREY) for n, k in enumerate((1, 2, 3, 4))]
    into = (1, 0, 1, 0)
    save(
        "buckets",
        "The hash of the bucket key chooses the bucket",
        190,
        *rows,
        *(arrow(130, 35 + 40 * n, 298, 55 + 80 * b) for n, b in enumerate(into)),
        text(215, 20, "hash(bucket key) % 2", size=12),
        box(300, 30, 180, "bucket 0|ids 2, 4", BLUE, 50),
        box(300, 110, 180, "bucket 1|ids 1, 3", BLUE, 50),
        text(500, 60, "one task writes one bucket", anchor="start"),
        text(500, 140, "one task merges one bucket", anchor="start"),
    )


def levels() -> None:
    """Sorted runs in levels."""
    save(
        "levels",
        "Sorted runs in the levels of a bucket",
        230,
        text(20, 38, "level 0", anchor="start"),
        text(20, 108, "level 4", anchor="start"),
        text(20, 178, "level 5", anchor="start"),
        *(
            box(90 + 130 * n, 18, 115, f"keys {k}|newest" if n == 2 else f"keys {k}", ORANGE, 36)
            for n, k in enumerate(("1 - 90", "5 - 60", "2 - 99"))
        ),
        text(500, 40, "each file is a sorted run:", anchor="start"),
        text(500, 58, "ranges overlap", anchor="start"),
        *(box(90 + 130 * n, 88, 115, f"keys {k}") for n, k in enumerate(("1 - 50", "51 - 99"))),
        text(500, 108, "a level is one sorted run", anchor="start"),
        *(box(90 + 130 * n, 158, 115, f"keys {k}", GREEN) for n, k in enumerate(("1 - 30", "31 - 70", "71 - 99"))),
        text(500, 170, "the oldest rows;", anchor="start"),
        text(500, 188, "full compaction ends here", anchor="start"),
        arrow(70, 50, 70, 150),
        text(360, 218, "compaction merges runs downwards; a read merges what overlaps", size=12),
    )


def engines() -> None:
    """Three rows with one key, and what each merge engine gives."""
    given = [box(20, 20 + 40 * n, 200, row, GREY) for n, row in enumerate(("1, 'a', 10", "1, null, 5", "1, 'c', null"))]
    gives = (
        ("deduplicate", "1, 'c', null"),
        ("first-row", "1, 'a', 10"),
        ("partial-update", "1, 'c', 5"),
        ("aggregation (max, sum)", "1, 'c', 15"),
    )
    save(
        "engines",
        "One key, three rows, four merge engines",
        190,
        *given,
        text(120, 160, "oldest first", size=12),
        *(box(300, 10 + 42 * n, 190, name) for n, (name, _) in enumerate(gives)),
        *(box(540, 10 + 42 * n, 150, row, GREEN) for n, (_, row) in enumerate(gives)),
        *(arrow(220, 75, 298, 25 + 42 * n) for n in range(4)),
        *(arrow(490, 25 + 42 * n, 538, 25 + 42 * n) for n in range(4)),
    )


def groups() -> None:
    """Two sources, each with its own sequence."""
    save(
        "groups",
        "Each sequence group keeps its newest values",
        190,
        text(130, 18, "rows, in the order of arrival", size=12),
        box(20, 28, 230, "order v3: shipped", ORANGE),
        box(20, 68, 230, "payment v2: invoice"),
        box(20, 108, 230, "order v1: created (late)", ORANGE),
        box(340, 28, 170, "group of order_version|newest: 3", ORANGE, 46),
        box(340, 98, 170, "group of payment_version|newest: 2", BLUE, 46),
        arrow(250, 43, 338, 48),
        arrow(250, 83, 338, 118),
        arrow(250, 123, 338, 64),
        box(570, 60, 130, "shipped,|invoice", GREEN, 46),
        arrow(510, 51, 568, 76),
        arrow(510, 121, 568, 94),
        text(360, 175, "late values lose within their own group only", size=12),
    )


def changelogs() -> None:
    """What each changelog producer writes."""
    rows = (
        ("none", "no changelog; a stream gets the written rows"),
        ("input", "the rows as they came: +I, +U, -D"),
        ("lookup", "-U, +U of each changed key, with each write"),
        ("full-compaction", "-U, +U of each changed key, with a full compaction"),
    )
    save(
        "changelogs",
        "What each changelog producer writes",
        190,
        box(20, 75, 120, "write:|key 1 = 'b'", GREY, 46),
        *(box(220, 8 + 45 * n, 130, name) for n, (name, _) in enumerate(rows)),
        *(arrow(140, 98, 218, 23 + 45 * n) for n in range(4)),
        *(text(365, 28 + 45 * n, words, anchor="start") for n, (_, words) in enumerate(rows)),
    )


def vectors() -> None:
    """A deletion vector next to a data file."""
    cells = [box(20 + 60 * n, 50, 50, str(n), RED if n in (2, 5) else GREEN) for n in range(7)]
    save(
        "deletion_vectors",
        "A deletion vector names deleted positions of a data file",
        170,
        text(20, 35, "data file, positions of rows", anchor="start", size=12),
        *cells,
        box(20, 115, 180, "deletion vector {2, 5}", ORANGE),
        arrow(110, 113, 155, 84),
        arrow(150, 113, 330, 84),
        text(470, 60, "reads skip positions 2 and 5;", anchor="start"),
        text(470, 80, "the file is not rewritten", anchor="start"),
    )


if __name__ == "__main__":
    for draw in (snapshots, layout, buckets, levels, engines, groups, changelogs, vectors):
        draw()
