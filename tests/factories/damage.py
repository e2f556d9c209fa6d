"""Damage to exports: at their bytes, and in their values."""

import json
import random
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

DATA: Final = (".json", ".jsonl", ".af", ".csv")
PARENTS: Final = ("parent", "parentId", "parentMessageId", "parent_message_uuid", "parent_response_id")
TIMES: Final = (
    "create_time", "created_at", "updated_at", "timestamp", "inserted_at", "time", "createdAt", "$numberLong", "updated_at",
)  # fmt: skip
ODD_TIMES: Final = (
    "0001-01-01T00:00:00+09:00",
    "9999-12-31T23:59:59-09:00",
    1e300,
    -(10**12),
    "yesterday",
    [],
    253402300800,
)
ODD_VALUES: Final = (None, True, 7, 1.5, "", "x", [], [1], {}, {"a": {}}, "\ud800", "\x00", "x" * 300)

Change = Callable[[str, Any, dict[str, Any]], Any]
"""Returns the new value of a key in an object."""


def files_of(path: Path) -> dict[str, bytes]:
    if path.is_dir():
        return {each.relative_to(path).as_posix(): each.read_bytes() for each in path.rglob("*") if each.is_file()}
    if not zipfile.is_zipfile(path):
        return {"": path.read_bytes()}
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_files(path: Path, files: Mapping[str, bytes]) -> None:
    if path.is_dir():
        for name, content in files.items():
            (path / name).write_bytes(content)
    elif not zipfile.is_zipfile(path):
        path.write_bytes(files[""])
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)


def changed(content: bytes, change: Change) -> bytes:
    """Return JSON or JSON Lines with its values changed."""
    try:
        return json.dumps(_walk(json.loads(content), change)).encode()
    except ValueError:
        return b"\n".join(json.dumps(_walk(json.loads(line), change)).encode() for line in content.splitlines())


def _walk(value: Any, change: Change) -> Any:
    if isinstance(value, list):
        return [_walk(each, change) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: change(key, _walk(each, change), value) for key, each in value.items()}


def _wrong_types() -> Change:
    draw = random.Random(7)
    return lambda key, value, around: draw.choice(ODD_VALUES) if draw.random() < 0.15 else value


def _odd_times() -> Change:
    draw = random.Random(7)
    return lambda key, value, around: draw.choice(ODD_TIMES) if key in TIMES else value


def _circles(key: str, value: Any, around: dict[str, Any]) -> Any:
    own = next((around[name] for name in ("id", "_id", "uuid", "messageId") if name in around), value)
    return own if key in PARENTS else value


def _doubled(content: bytes) -> bytes:
    """Return a file with everything twice, under the same ids, and with other texts the second time."""
    try:
        value = json.loads(content)
    except ValueError:
        return content + content
    if isinstance(value, dict):
        return json.dumps(
            {key: each + each if isinstance(each, list) else each for key, each in value.items()}
        ).encode()
    other = changed(content, lambda key, text, around: f"{text} again" if key in ("text", "content") and text else text)
    return json.dumps(value + json.loads(other)).encode() if isinstance(value, list) else content


def _valued(change: Callable[[], Change]) -> Callable[[bytes], bytes]:
    return lambda content: changed(content, change()) if content[:1] in b"[{" else content[::-1]


DAMAGES: Mapping[str, Callable[[bytes], bytes]] = {
    "cut": lambda content: content[: len(content) * 2 // 3],
    "zeros": lambda content: content[: len(content) // 2] + bytes(200) + content[len(content) // 2 + 200 :],
    "encoding": lambda content: content.decode().encode("cp932", "replace"),
    "types": _valued(_wrong_types),
    "times": _valued(_odd_times),
    "circles": _valued(lambda: _circles),
    "doubled": _doubled,
}


def damage(path: Path, kind: str) -> None:
    """Damage every file of data in an export."""
    files = files_of(path)
    write_files(
        path,
        {
            name: DAMAGES[kind](content) if (name or path.name).endswith(DATA) else content
            for name, content in files.items()
        },
    )
