"""Named SQL statements, loaded from `.sql` files.

A file is a sequence of blocks: `-- name: use_memories` begins a statement, `-- fragment: of_memory` a piece that later
blocks insert by `{of_memory}`. Values are parameters of the statement, never inserted. Lines of comment are left out.
"""

import re
from pathlib import Path
from typing import Final

_BLOCK: Final = re.compile(r"^-- (name|fragment): (\w+)\n(.*?)(?=^-- (?:name|fragment): |\Z)", re.M | re.S)
_COMMENT: Final = re.compile(r"^ *--.*\n", re.M)
_INSERTION: Final = re.compile(r"\{(\w+)\}")


def load_queries(path: Path, **fragments: str) -> dict[str, str]:
    """Return the statements of a file by name; blocks may insert `fragments` as well as those of the file.

    Raises KeyError for an unknown fragment.
    """
    queries: dict[str, str] = {}
    for kind, name, text in _BLOCK.findall(path.read_text(encoding="utf-8")):
        sql = _INSERTION.sub(lambda match: fragments[match[1]], _COMMENT.sub("", text)).strip()
        (queries if kind == "name" else fragments)[name] = sql
    return queries
