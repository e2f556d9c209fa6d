"""What Honcho and Hindsight keep is downloaded page by page, continued, and imported once."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError
from pytest_django.fixtures import Settings

from conversations.models import Message, Session
from memoryhub.importexport.foreign import services
from strength.models import Memory
from tests.factories.memory_servers import SPACE, hindsight_lists, honcho_lists
from tests.factories.writer import Writer
from tests.fakes.memory_server import KEY, MemoryServer
from tests.integration.memoryhub.importexport.conftest import run

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def token(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.IMPORT_TOKEN = KEY
    monkeypatch.setattr(services, "MAX_WAIT_SECONDS", 0.0)


@pytest.fixture
def honcho() -> Iterator[MemoryServer]:
    with MemoryServer(honcho_lists(Writer(1), count=3, turns=60)) as server:
        yield server


@pytest.fixture
def hindsight() -> Iterator[MemoryServer]:
    with MemoryServer(hindsight_lists(Writer(2), count=120, turns=2)) as server:
        yield server


def download(server: MemoryServer, path: Path, service: str, *more: Any) -> str:
    return run("import", path, "--url", server.url, "--format", service, "--agent", "kana", *more)


def test_honcho_is_downloaded_and_imported_once(honcho: MemoryServer, tmp_path: Path) -> None:
    path = tmp_path / "honcho.jsonl"
    told = download(honcho, path, "honcho")
    assert "messages: 360 new" in told and "3 × conclusions about an assistant." in told
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert KEY not in path.read_text()
    assert {session.actor.user_id for session in Session.objects.select_related("actor")} == {"hiroki"}
    roles = Message.objects.values_list("role", flat=True)
    assert sorted(set(roles)) == ["assistant", "user"] and list(roles).count("user") == 180
    assert Message.objects.filter(content__startswith="maya: ").count() == 3
    memories = Memory.objects.select_related("actor")
    assert {(each.status, each.actor.user_id, each.metadata["origin"]) for each in memories} == {
        ("pending", "hiroki", "saved memory")
    }
    asked = len(honcho.asked)
    assert "Imported: 0 new" in download(honcho, path, "honcho") and len(honcho.asked) == asked
    path.unlink()
    assert "Imported: 0 new" in download(honcho, path, "honcho", "--space", SPACE)


def test_hindsight_is_downloaded_and_imported_once(hindsight: MemoryServer, tmp_path: Path) -> None:
    path = tmp_path / "hindsight.jsonl"
    told = download(hindsight, path, "hindsight")
    assert "memories: 240 new" in told and "120 × documents that the memories were drawn from." in told
    memories = Memory.objects.select_related("actor")
    assert {(each.status, each.actor.user_id) for each in memories} == {("pending", "hiroki")}
    assert {each.kind for each in memories} == {"fact", "episode"}
    path.unlink()
    assert "Imported: 0 new" in download(hindsight, path, "hindsight", "--space", "hiroki")
    assert not any("/banks?" in address for address in hindsight.asked[-4:])


def test_peers_may_be_named_as_assistants(honcho: MemoryServer, tmp_path: Path) -> None:
    path = tmp_path / "honcho.jsonl"
    download(honcho, path, "honcho", "--assistants", "maya, tutor")
    assert json.loads(path.read_text().splitlines()[0])["items"] == ["maya", "tutor"]
    assert Message.objects.filter(role="user").count() == 177


def test_an_interrupted_download_continues(hindsight: MemoryServer, tmp_path: Path) -> None:
    path = tmp_path / "hindsight.jsonl"
    hindsight.fails = [429, 503, 500]
    whole = download(hindsight, path, "hindsight", "--dry-run")
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(hindsight.asked) == 3 + len(lines)
    path.write_bytes(b"".join(lines[:3]) + lines[3][:50])
    hindsight.asked.clear()
    assert download(hindsight, path, "hindsight", "--dry-run") == whole
    assert path.read_bytes().splitlines(keepends=True) == lines and len(hindsight.asked) == len(lines) - 3
    path.write_bytes(b"".join(lines[:2]))
    hindsight.fails = [503] * services.ATTEMPTS
    with pytest.raises(CommandError, match="the same command continues from there"):
        download(hindsight, path, "hindsight", "--dry-run")
    assert path.read_bytes().splitlines(keepends=True) == lines[:2]


@pytest.mark.parametrize(
    ("service", "more", "problem"),
    [
        ("honcho", ["--space", "other"], "no such address"),
        ("hindsight", [], "no such address"),
        ("mem0", [], "--url needs a file name, and --format with one of"),
    ],
)
def test_what_cannot_be_downloaded_is_told(
    honcho: MemoryServer, service: str, more: list[str], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(CommandError, match=problem):
        download(honcho, tmp_path / "a.jsonl", service, *more)


@pytest.mark.parametrize(
    ("path", "items", "problem"),
    [
        ("/v3/workspaces/list", [{"name": "no id"}], "has no `id`"),
        ("/v3/workspaces/list", ["text"], "has no `id`"),
        ("/v3/workspaces/kana%20tutoring/peers/list", [{"id": "x"}] * 200, "the same page again"),
    ],
)
def test_an_odd_server_has_a_clear_message(
    honcho: MemoryServer, path: str, items: list[Any], problem: str, tmp_path: Path
) -> None:
    honcho.lists[path] = items
    with pytest.raises(CommandError, match=problem):
        download(honcho, tmp_path / "a.jsonl", "honcho")


@pytest.mark.parametrize(
    "content", [b'[{"chat": 1}]', b"notes\n", b'{"service": "hindsight", "pa', b'{"service": "honcho", "page": "x"}\n']
)
def test_another_file_is_left_as_it_is(honcho: MemoryServer, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "chats.json"
    path.write_bytes(content)
    with pytest.raises(CommandError, match="is no download from honcho"):
        download(honcho, path, "honcho")
    assert path.read_bytes() == content


def test_a_refused_token_and_wrong_addresses_are_told(
    honcho: MemoryServer, hindsight: MemoryServer, settings: Settings, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    settings.IMPORT_TOKEN = ""
    with pytest.raises(CommandError, match=r"refuses the token \(401\)\. Set MEMORYHUB_IMPORT_TOKEN"):
        download(honcho, path, "honcho")
    settings.IMPORT_TOKEN = KEY
    for url, problem in (("localhost:8888", "is no address"), ("http://127.0.0.1:9", "cannot be reached")):
        with pytest.raises(CommandError, match=problem):
            run("import", path, "--url", url, "--format", "honcho", "--agent", "kana")
    download(honcho, path, "honcho", "--dry-run")
    with pytest.raises(CommandError, match="is no download from hindsight"):
        download(hindsight, path, "hindsight")
    assert not Message.objects.exists()
