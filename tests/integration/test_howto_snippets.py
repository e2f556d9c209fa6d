"""Python in the how-to guides runs as it is printed; that of docs/howto/connect.md is in clients/test_connect.py."""

import json
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import HTTPServer
from ipaddress import ip_network
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from memoryhub.auth.access import actor_for_writing, tenant_for_reading
from memoryhub.auth.principals import command
from memoryhub.webhooks.actions.secrets import new_secret
from memoryhub.webhooks.actions.sending import Message, Sender
from strength.actions.drafts import NewMemory
from strength.actions.memories import write_memory
from strength.models import Task
from tests.factories.foreign_exports import chatgpt_conversation
from tests.factories.writer import Writer
from tests.integration.clients.conftest import new_key
from tests.integration.clients.test_connect import run as run_as_printed
from tests.serving import serving

HOWTO = Path(settings.BASE_DIR) / "docs" / "howto"
CONNECT = "connect.md"
BY = command("test")
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def snippets(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@contextmanager
def sending_to(port: int) -> Iterator[Sender]:
    with override_settings(WEBHOOK_NETWORKS=[ip_network("127.0.0.1")]), Sender(f"http://127.0.0.1:{port}/") as sender:
        yield sender


def run(page: str, **values: Any) -> dict[str, Any]:
    """Run the only snippet of a page with these names; return the names that it leaves."""
    (code,) = snippets(HOWTO / page)
    exec(compile(code, page, "exec"), values)
    return values


def test_every_page_with_python_is_run_here() -> None:
    pages = {page.name for page in HOWTO.glob("*.md") if snippets(page)}
    assert pages == {CONNECT, "import-and-export.md", "long-term-strategies.md", "strength-and-sleep.md", "webhooks.md"}


def test_a_task_is_executed_with_memories(db: None) -> None:
    actor = actor_for_writing(BY, "kana", "hiroki", now=NOW)
    write_memory(actor=actor, new=NewMemory(content="The kiln fires at 1,200 degrees."), by=BY, now=NOW)
    tenant = tenant_for_reading(BY, "kana", "hiroki")

    left = run("strength-and-sleep.md", tenant=tenant, actor=actor, principal=BY, clock=lambda: NOW)

    assert Task.objects.get() == left["task"]


def test_messages_are_read_again(db: None) -> None:
    run("long-term-strategies.md", actor=actor_for_writing(BY, "kana", "hiroki", now=NOW))


def test_a_receiver_verifies_what_it_gets(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    secret, now = new_secret(), datetime.now(UTC)
    monkeypatch.setenv("WEBHOOK_SECRET", secret)
    (code,) = snippets(HOWTO / "webhooks.md")
    values: dict[str, Any] = {}
    exec(compile(code.partition("HTTPServer((")[0], "webhooks.md", "exec"), values)
    with HTTPServer(("127.0.0.1", 0), values["Receiver"]) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        body = {"type": "memory.created", "data": {}}
        with sending_to(server.server_port) as sender:
            assert sender.send(Message("evt_1", body, (secret,)), now=now).status == 204
        thread.join(10)
    assert "evt_1 memory.created" in capsys.readouterr().out


def test_an_export_of_another_program_is_imported(transactional_db: None, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "chatgpt-export.zip", "w") as archive:
        archive.writestr("conversations.json", json.dumps([chatgpt_conversation(Writer(7), 2)]))
    actor_for_writing(BY, "kana", "hiroki", now=NOW)
    (code,) = snippets(HOWTO / "import-and-export.md")
    with serving() as web:
        before = f"import os\nos.chdir({str(tmp_path)!r})\nkey = os.environ['MEMORYHUB_KEY']\n"
        printed = run_as_printed(before + code.replace("http://127.0.0.1:8000", web.url), web, new_key())

    assert "'state'" in printed
