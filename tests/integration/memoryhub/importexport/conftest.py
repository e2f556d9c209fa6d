"""Exports as tests handle them: as bytes, as lines, and as files made anew from lines that were changed."""

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from memoryhub.auth.erasure import actor_models
from memoryhub.auth.models import AuditEntry
from memoryhub.importexport.native.exporter import Selection, export
from memoryhub.importexport.native.jsonl import Digest
from memoryhub.search.models import TermStatistic
from memoryhub.tenancy.models import Actor, Agent


def exported(agent_id: str | None = None, user_id: str | None = None) -> bytes:
    """Return an export as a whole."""
    return b"".join(export(Selection(agent_id, user_id)))


def objects(export: bytes) -> list[dict[str, Any]]:
    """Return the lines of an export, without the last."""
    return [json.loads(line) for line in export.splitlines()[:-1]]


def of_lines(lines: list[Any]) -> bytes:
    """Return a whole export of these lines (bytes stand as they are)."""
    digest = Digest()
    for line in lines:
        digest.note(line if isinstance(line, bytes) else dumped(line))
    return b"".join([*(line if isinstance(line, bytes) else dumped(line) for line in lines), digest.end()])


def dumped(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n").encode()


def run(*arguments: Any) -> str:
    """Run a command and return what it tells."""
    out = StringIO()
    call_command(*(str(each) for each in arguments), stdout=out)
    return out.getvalue()


def empty_the_installation() -> None:
    """Remove everybody, with all that hangs on them."""
    Agent.objects.all().delete()
    TermStatistic.objects.all().delete()


def everything() -> dict[str, list[Any]]:
    """Return every row of every actor's table, and of those above them."""
    tables: list[Any] = [Agent, Actor, AuditEntry, *actor_models()]
    return {each._meta.db_table: sorted(each._base_manager.values_list(*_columns(each)), key=str) for each in tables}


def _columns(model: Any) -> list[str]:
    return [field.attname for field in model._meta.concrete_fields if field.column]


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[bytes], Path]:
    """Return a function that puts bytes into a file."""

    def save(content: bytes, name: str = "export.jsonl") -> Path:
        file = tmp_path / name
        file.write_bytes(content)
        return file

    return save
