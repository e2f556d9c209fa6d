"""Compaction by real workers that are killed: the old text or the new one, whole, and no edit is ever lost (SPEC P7)."""

import re
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from urllib.parse import quote

import pytest

from tests.fakes.llm_server import Asked, LLMServer, Reply
from tests.slow.chaos.hub import Hub, eventually, hurt
from tests.slow.chaos.talking import Client, must, talking

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")]

SETTINGS = "tests.slow.chaos.compacting_settings"
SMALL = {"model_context_window": 4_000, "compaction_trigger": 0.1, "compaction_target": 0.6}
"""A document of more than 400 tokens is compacted to at most 240."""

MARK = re.compile(r"\[\[kept-\d+-[0-9a-f]+\]\]", re.MULTILINE)
FOR_SECONDS = 120.0

STALL = """
CREATE FUNCTION bench_stall() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1); RETURN NEW; END $$;
CREATE TRIGGER bench_stall AFTER INSERT ON summaries_documentversion
FOR EACH ROW WHEN (NEW.kind = 'compaction') EXECUTE FUNCTION bench_stall();
CREATE TRIGGER bench_stall AFTER UPDATE ON summaries_document FOR EACH ROW EXECUTE FUNCTION bench_stall();
CREATE TRIGGER bench_stall AFTER INSERT ON memoryhub_auditentry
FOR EACH ROW WHEN (NEW.verb = 'compaction') EXECUTE FUNCTION bench_stall();
CREATE TRIGGER bench_stall AFTER INSERT ON summaries_projectevent
FOR EACH ROW WHEN (NEW.kind = 'compact') EXECUTE FUNCTION bench_stall();
CREATE TRIGGER bench_stall AFTER UPDATE ON memoryhub_job
FOR EACH ROW WHEN (NEW.kind = 'compact' AND NEW.state = 'done') EXECUTE FUNCTION bench_stall();
"""
"""Each statement of a compaction's write takes a second, so that a kill can be sent into its middle."""

GO_ON = (
    "".join(
        f"DROP TRIGGER bench_stall ON {table};"
        for table in (
            "summaries_documentversion",
            "summaries_document",
            "memoryhub_auditentry",
            "summaries_projectevent",
            "memoryhub_job",
        )
    )
    + "DROP FUNCTION bench_stall();"
)

STALLED = """
SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE %s AND query LIKE %s
"""

TOLD = """
SELECT document.text, document.version, document.token_count FROM summaries_document AS document
JOIN summaries_project AS project ON project.id = project_id WHERE project.name = %s AND document.name = 'MEMORY.md'
"""
VERSIONS = """
SELECT version.number, version.kind, version.text FROM summaries_documentversion AS version
JOIN summaries_document AS document ON document.id = document_id
JOIN summaries_project AS project ON project.id = project_id
WHERE project.name = %s AND document.name = 'MEMORY.md' ORDER BY version.number
"""
EVENTS = """
SELECT count(*) FROM summaries_projectevent WHERE project_name = %s AND kind = 'compact' AND outcome = 'compaction'
"""
JOBS = "SELECT state, attempts FROM memoryhub_job WHERE kind = 'compact' AND payload::text LIKE %s"
WORKER = """
SELECT worker.pid FROM memoryhub_job AS job JOIN memoryhub_worker AS worker ON worker.id = job.worker
WHERE job.kind = 'compact' AND job.state = 'running' AND payload::text LIKE %s
"""
DOCUMENT = """
SELECT document.id::text FROM summaries_document AS document
JOIN summaries_project AS project ON project.id = project_id WHERE project.name = %s AND document.name = 'MEMORY.md'
"""


@dataclass
class Model:
    """A model that keeps every mark and says the rest in one line; it may take its time."""

    server: LLMServer
    delay_seconds: float = 0.0
    begun: int = 0
    lines: list[str] = field(default_factory=list)

    def __call__(self, asked: Asked) -> Reply:
        """Answer a compaction."""
        self.begun += 1
        marks = MARK.findall(asked.text)
        return Reply("\n".join([*marks[:1], "- In short.", *marks[1:]]), delay_seconds=self.delay_seconds)


@dataclass
class Place:
    """One installation, and what a test does in it."""

    hub: Hub
    client: Client
    model: Model

    def document(self, name: str, *, entries: int = 60) -> str:
        """Make a project with a MEMORY.md that is too long, and return its text."""
        must(self.client.post("projects", {"agent_id": "kana", "name": name, "description": "A canal"}), 201)
        text = long_text(name, entries)
        self.write(name, text)
        return text

    def write(self, name: str, text: str) -> None:
        """Give a project's MEMORY.md a text, as a person does."""
        path = f"projects/{quote(name)}/documents/MEMORY.md?agent_id=kana"
        must(self.client.call("PUT", path, {"text": text}), 200)

    def asked(self, beyond: int) -> None:
        """Wait until the model is being asked once more."""
        assert eventually(lambda: self.model.begun > beyond, FOR_SECONDS) is not None

    def kill_worker(self, name: str) -> None:
        """Kill the worker that compacts a project's document, as a machine does that runs out of memory."""
        assert eventually(lambda: self.kill_worker_if_any(name), FOR_SECONDS) is not None, self.states(name)

    def kill_worker_if_any(self, name: str) -> bool:
        """Kill the worker that compacts a project's document at this moment, if there is one."""
        pid = self._worker(name)
        return bool(pid) and hurt(pid, signal.SIGKILL)

    def _worker(self, name: str) -> int:
        ((document,),) = self.hub.rows(DOCUMENT, [name])
        found = self.hub.rows(WORKER, [f"%{document}%"])
        return int(found[0][0]) if found else 0

    def states(self, name: str) -> list[tuple[str, int]]:
        """Return the state of each compaction of a project's document, and how often it was begun."""
        ((document,),) = self.hub.rows(DOCUMENT, [name])
        return [(state, attempts) for state, attempts in self.hub.rows(JOBS, [f"%{document}%"])]

    def is_over(self, name: str) -> bool:
        """Say whether no compaction of it waits or runs."""
        states = self.states(name)
        return bool(states) and all(state == "done" for state, _ in states)

    def check(self, name: str, *written: str) -> None:
        """Wait for the end, and look that it is short and whole, once, and everything that was written is kept."""
        assert eventually(lambda: self.is_over(name), FOR_SECONDS) is not None, self.states(name)
        ((text, version, tokens),) = self.hub.rows(TOLD, [name])
        versions = self.hub.rows(VERSIONS, [name])
        assert [number for number, _, _ in versions] == list(range(version)), "each text follows on one"
        assert [kind for _, kind, _ in versions].count("compaction") == 1
        assert self.hub.rows(EVENTS, [name]) == [(1,)]
        assert tokens <= 240 and text.count("- In short.") == 1
        former = [former for _, kind, former in versions if kind == "compaction"]
        assert former == [written[-1]], "the backup is the last text that somebody wrote, whole"
        assert set(written) <= {former for _, _, former in versions}
        for line in written[-1].splitlines():
            assert ("[PINNED]" in line) == (line in text.splitlines()) or line.startswith(("#", ">")) or not line


def long_text(name: str, entries: int) -> str:
    lines = [
        f"- {'[PINNED] ' if number % 20 == 0 else ''}Entry {number} tells of the canal."
        for number in range(1, entries + 1)
    ]
    return f"# {name}\n\n> A canal\n\n" + "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """Return one installation with three workers for all tests: a start costs many seconds."""
    with LLMServer() as server, talking(server, workers=3, settings=SETTINGS) as hub:
        model = Model(server)
        server.answer(model)
        client = Client(hub)
        must(client.post("agents", {"agent_id": "kana", "policy": SMALL}), 201)
        yield Place(hub, client, model)


@pytest.fixture(autouse=True)
def at_ease(place: Place) -> None:
    """Wait until one worker can die and another go on, and let the model answer at once."""
    place.model.delay_seconds = 0.0
    assert eventually(place.hub.is_whole, FOR_SECONDS) is not None


def test_killed_while_the_model_is_asked_another_worker_writes_once(place: Place) -> None:
    place.model.delay_seconds, before = 30.0, place.model.begun
    old = place.document("asked")
    place.asked(before)
    place.kill_worker("asked")
    assert place.hub.rows(TOLD, ["asked"])[0][0] == old
    place.model.delay_seconds = 0.0

    place.check("asked", old)
    assert place.states("asked") == [("done", 2)]


def test_killed_while_somebody_edits_the_edit_stays(place: Place) -> None:
    place.model.delay_seconds, before = 30.0, place.model.begun
    old = place.document("edited")
    place.asked(before)
    edited = f"{old}- [PINNED] Said while the model wrote.\n"
    place.write("edited", edited)
    place.kill_worker("edited")
    place.model.delay_seconds = 0.0

    place.check("edited", old, edited)


def test_an_edit_while_a_live_worker_asks_is_begun_anew_from(place: Place) -> None:
    place.model.delay_seconds, before = 5.0, place.model.begun
    old = place.document("anew")
    place.asked(before)
    edited = f"{old}- [PINNED] Said while the model wrote.\n"
    place.write("anew", edited)

    place.check("anew", old, edited)


@pytest.mark.parametrize(
    ("verb", "table"),
    [
        ("INSERT", "summaries_documentversion"),
        ("UPDATE", "summaries_document"),
        ("INSERT", "memoryhub_auditentry"),
        ("INSERT", "summaries_projectevent"),
        ("UPDATE", "memoryhub_job"),
    ],
)
def test_killed_between_the_statements_of_the_write_nothing_or_all_is_written(
    place: Place, verb: str, table: str
) -> None:
    name = f"killed-{verb}-{table}".lower().replace("_", "-")
    with place.hub.connection() as connection:
        connection.execute(STALL)
    try:
        old = place.document(name)
        stalled = [f"%{verb}%", f"%{table}%"]
        assert eventually(lambda: place.hub.rows(STALLED, stalled) == [(1,)], FOR_SECONDS) is not None
        place.kill_worker(name)
        ((text, _, _),) = place.hub.rows(TOLD, [name])
        assert text == old, "nobody sees half of it"
    finally:
        with place.hub.connection() as connection:
            connection.execute(GO_ON)

    place.check(name, old)


@pytest.mark.parametrize("seed", range(2))
def test_killed_at_any_moment_it_ends_once(place: Place, seed: int) -> None:
    place.model.delay_seconds = 0.3
    old = place.document(f"any-{seed}")
    time.sleep(Random(seed).uniform(0.0, 0.6))
    place.kill_worker_if_any(f"any-{seed}")

    place.check(f"any-{seed}", old)


def test_two_at_once_by_two_workers_write_one_text(place: Place) -> None:
    place.model.delay_seconds, before = 5.0, place.model.begun
    old = place.document("both")
    order = "projects/both/documents/MEMORY.md/compact?agent_id=kana"
    must(place.client.post(order), 202)
    place.asked(before + 1)

    place.check("both", old)
    assert len(place.states("both")) == 2
