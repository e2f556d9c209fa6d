"""`manage.py chat`, as a script calls it."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from conversations.models import Message
from tests.fakes.llm_server import LLMServer, Reply


def run_chat(monkeypatch: pytest.MonkeyPatch, *lines: str) -> str:
    monkeypatch.setattr("sys.stdin", StringIO("".join(f"{line}\n" for line in lines)))
    out = StringIO()
    call_command("chat", agent="kana", user="", stdout=out, stderr=StringIO())
    return out.getvalue()


def test_it_fails_where_the_last_message_has_no_answer(
    transactional_db: None, llm: LLMServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm.answer(Reply("x", failure="400"))

    with pytest.raises(CommandError, match="no answer"):
        run_chat(monkeypatch, "Hello.")
    assert Message.objects.get().content == "Hello."


def test_whose_memory_it_is_must_be_said() -> None:
    with pytest.raises(CommandError, match="--user"):
        call_command("chat", "--agent", "kana")


def test_it_ends_well_with_an_answer(
    transactional_db: None, llm: LLMServer, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    llm.answer(Reply("Good morning."))

    assert "Good morning." in run_chat(monkeypatch, "Hello.")
