"""Long commands that somebody stops with Ctrl-C."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command


def stopped(*args: Any, **options: Any) -> None:
    """Be where Ctrl-C comes."""
    raise KeyboardInterrupt


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("command", "work"), [("reindex", "reindex"), ("cluster_tables", "Clustering"), ("reembed", "fill")]
)
def test_stopped_command_says_how_to_go_on(command: str, work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"memoryhub.management.commands.{command}.{work}", stopped)
    said = StringIO()

    with pytest.raises(SystemExit) as ended:
        call_command(command, stdout=StringIO(), stderr=said)

    assert ended.value.code == 130
    assert said.getvalue() == "Stopped; run it again to go on.\n"
