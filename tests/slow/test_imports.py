"""Exports as large as people have them: every format with 300 conversations, twice."""

from pathlib import Path

import pytest

from conversations.models import Message, Session
from memoryhub.importexport.foreign.formats import FORMATS
from strength.models import Memory
from tests.factories.foreign_exports import write_export
from tests.integration.memoryhub.importexport.conftest import run

WHOSE = ("--agent", "kana", "--user", "hiroki")
COUNT, TURNS = 300, 6


@pytest.mark.parametrize("format", FORMATS)
def test_three_hundred_conversations_are_imported_once(db: None, format: str, tmp_path: Path) -> None:
    path = write_export(format, tmp_path, count=COUNT, turns=TURNS)
    told = run("import", path, *WHOSE)
    assert ", 0 refused." in told
    if format == "markdown":
        assert Memory.objects.count() == 3 * COUNT
    elif format in ("mem0", "hindsight"):
        assert Memory.objects.count() == (2 if format == "mem0" else 1) * COUNT * TURNS
    else:
        assert (Session.objects.count(), Message.objects.count()) == (COUNT, 2 * COUNT * TURNS)
    assert "Imported: 0 new" in run("import", path, *WHOSE)
