#!/usr/bin/env python
"""Measure what requests cost: processor time of Python and of PostgreSQL, calls of functions, statements.

.venv/bin/python bench/cost.py                             a line for each kind of request
.venv/bin/python bench/cost.py --profile context           cProfile's table of one kind, by processor time
.venv/bin/python bench/cost.py --profile context --sort tottime
.venv/bin/python bench/cost.py --profile context --rounds 500 --flame-graph docs/images/flame-context.svg
.venv/bin/python bench/cost.py --ingestion                 batches of 100 over HTTP beside plain INSERTs of their rows

Requests go through the handler and all middleware, in this process and thread, as a thread of the web server answers
them: four users with 300 messages and 50 memories each. Linux only.
"""

import cProfile
import io
import json
import os
import pstats
import random
import signal
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from itertools import chain, groupby
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import harness
from bench.load import MEMORIES, MESSAGES, text_by

USERS: Final = 4
KINDS: Final = ("context", "search", "message", "memory", "100 messages")
BATCH_TABLES: Final = ("conversations_message", "conversations_messageindex")
SAMPLE_SECONDS: Final = 0.001
GRAPH_WIDTH: Final = 1200
ROW: Final = 16
LETTER: Final = 6.5
NARROWEST: Final = 0.005
"""Share of the samples below which a function is left out of a flame graph, whose other measures are in pixels."""
WARM: Final = 8
LINES: Final = 60


class Asker:
    """The web application, asked without a web server."""

    def __init__(self, key: str) -> None:
        from memoryhub.api.middleware import OneHopHandler

        self.handler, self.key, self.random = OneHopHandler(), key, random.Random(5)
        self.handler.load_middleware()
        self.sessions = [self._fill(number) for number in range(USERS)]

    def ask(self, path: str, body: Any) -> Any:
        content = json.dumps(body).encode()
        headers = {
            "host": "127.0.0.1",
            "authorization": f"Bearer {self.key}",
            "content-type": "application/json",
            "content-length": str(len(content)),
            "idempotency-key": uuid.uuid4().hex,
        }
        if path in ("context", "memories/search"):
            del headers["idempotency-key"]
        scope = {
            "type": "http",
            "method": "POST",
            "path": f"/api/v1/{path}",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        response = self.handler._respond(scope, io.BytesIO(content))
        if response.status_code not in (200, 201):
            raise SystemExit(f"{path} answered {response.status_code}: {response.content[:500]!r}")
        return json.loads(response.content)

    def request(self, kind: str, number: int) -> Callable[[], Any]:
        """Return what makes a request of a kind; its texts, and the session of a batch, are made now."""
        said, session = text_by(self.random), self.sessions[number % USERS]
        path, body = {
            "context": ("context", {**_user(number), "session_id": session, "message": said}),
            "search": ("memories/search", {**_user(number), "query": " ".join(said.split()[:5])}),
            "message": (f"sessions/{session}/messages", {"messages": self._messages(1)}),
            "memory": ("memories", {**_user(number), "content": said}),
        }.get(kind) or (f"sessions/{self._session(number)}/messages", {"messages": self._messages(100)})
        return lambda: self.ask(path, body)

    def _fill(self, number: int) -> str:
        session = self._session(number)
        for _ in range(MESSAGES // 100):
            self.ask(f"sessions/{session}/messages", {"messages": self._messages(100)})
        for _ in range(MEMORIES):
            self.ask("memories", {**_user(number), "content": text_by(self.random)})
        return self._session(number)

    def _session(self, number: int) -> str:
        return str(self.ask("sessions", _user(number))["id"])

    def _messages(self, count: int) -> list[dict[str, str]]:
        return [{"role": "user", "content": text_by(self.random, 25)} for _ in range(count)]


def _user(number: int) -> dict[str, str]:
    return {"agent_id": "bench", "user_id": f"user-{number % USERS}"}


def cost(asker: Asker, kind: str, rounds: int) -> dict[str, Any]:
    """Return medians of Python's processor time, the mean of PostgreSQL's, calls and statements of one request."""
    from django.db import connection

    for number in range(WARM):
        asker.request(kind, number)()
    connection.ensure_connection()
    backend = connection.connection.info.backend_pid
    python, before = [], _processor_seconds(backend)
    requests = [asker.request(kind, number) for number in range(rounds)]
    if kind == KINDS[-1]:
        before = _processor_seconds(backend)  # their sessions are no part of it
    for request in requests:
        began = time.thread_time()
        request()
        python.append(1000 * (time.thread_time() - began))
    postgresql = 1000 * (_processor_seconds(backend) - before) / rounds
    statements: list[str] = []

    def note(execute: Any, sql: str, *rest: Any) -> Any:
        statements.append(sql)
        return execute(sql, *rest)

    request = asker.request(kind, 0)
    with connection.execute_wrapper(note):
        request()
    return {
        "request": kind,
        "Python, ms": round(median(python), 1),
        "PostgreSQL, ms": round(postgresql, 1),
        "calls": _calls(asker.request(kind, 1)),
        "statements": len(statements),
    }


def _processor_seconds(process: int) -> float:
    return int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / 1e9


def _calls(request: Callable[[], Any]) -> int:
    calls = 0

    def count(*_: Any) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        request()
    finally:
        sys.setprofile(None)
    return calls


def profile(asker: Asker, kind: str, rounds: int, sort: str) -> str:
    """Return cProfile's table of requests of one kind."""
    requests = [asker.request(kind, number) for number in range(WARM + rounds)]
    for request in requests[:WARM]:
        request()
    profiler, table = cProfile.Profile(time.thread_time), io.StringIO()
    profiler.enable()
    for request in requests[WARM:]:
        request()
    profiler.disable()
    pstats.Stats(profiler, stream=table).sort_stats(sort).print_stats(LINES)
    return table.getvalue().replace(f"{harness.ROOT}/", "")


Stacks = Mapping[tuple[str, ...], int]
"""How often each stack of functions was met, the outermost first."""


def sampled(asker: Asker, kind: str, rounds: int) -> Stacks:
    """Return the stacks of requests of one kind, taken as processor time goes by."""
    requests = [asker.request(kind, number) for number in range(WARM + rounds)]
    stacks: Counter[tuple[str, ...]] = Counter()

    def note(_number: int, frame: FrameType | None) -> None:
        files = []
        while frame is not None:
            files.append((frame.f_code.co_filename, frame.f_code.co_qualname))
            frame = frame.f_back
        stacks[_named(files[::-1])] += 1

    for request in requests[:WARM]:
        request()
    former = signal.signal(signal.SIGPROF, note)
    signal.setitimer(signal.ITIMER_PROF, SAMPLE_SECONDS, SAMPLE_SECONDS)
    try:
        for request in requests[WARM:]:
            request()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, former)
    return stacks


def _named(frames: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return a stack with our functions by name; what runs below one of them in a library is the library, once."""
    names = [name for file, function in frames if (name := _name(file, function))]
    return tuple(name for name, _ in groupby(names))


def _name(file: str, function: str) -> str:
    library = file.rpartition("/site-packages/")[2]
    if library != file:
        return library.partition("/")[0].removesuffix(".py")
    own = file.removeprefix(f"{harness.ROOT}/")
    if own == file:
        return "Python"
    return "" if own.startswith("bench/") else f"{own}: {function.replace('.<locals>', '')}"


def flame_graph(stacks: Stacks, title: str) -> str:
    """Return an SVG: a box for each function, above the one that called it, as wide as its share of the time."""
    boxes = [*_boxes(stacks, 0, 0, sum(stacks.values()))]
    height = ROW * (2 + max(depth for *_, depth in boxes))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {GRAPH_WIDTH} {height}" font-family="sans-serif" '
        f'font-size="11"><text x="4" y="13">{escape(title)}</text>'
    ]
    for name, share, left, depth in boxes:
        x, y, width = GRAPH_WIDTH * left, height - ROW * (depth + 1), GRAPH_WIDTH * share
        label = name.rpartition(": ")[2][: int(width / LETTER)]
        lines.append(
            f'<g><title>{escape(name)} {100 * share:.1f} %</title><rect x="{x:.1f}" y="{y}" width="{width - 0.5:.1f}" '
            f'height="{ROW - 1}" fill="{"#f4a261" if ": " in name else "#a8c5da"}"/>'
            f'<text x="{x + 2:.1f}" y="{y + 12}">{escape(label)}</text></g>'
        )
    return "\n".join([*lines, "</svg>\n"])


def _boxes(stacks: Stacks, samples_before: int, depth: int, total: int) -> Iterator[tuple[str, float, float, int]]:
    """Yield name, share, left edge and depth of each function; narrow ones are left out with all that they call."""
    callees: dict[str, Counter[tuple[str, ...]]] = {}
    for stack, count in stacks.items():
        if stack:
            callees.setdefault(stack[0], Counter())[stack[1:]] += count
    for name, rests in sorted(callees.items()):
        samples = rests.total()
        if samples >= NARROWEST * total:
            yield name, samples / total, samples_before / total, depth
            yield from _boxes(rests, samples_before, depth + 1, total)
        samples_before += samples


def ingestion(key: str, rounds: int) -> dict[str, Any]:
    """Store batches of messages through the web server, each followed by plain INSERTs of its rows, one a table."""
    import psycopg

    chance, milliseconds = random.Random(5), {"HTTP": list[float](), "plain INSERTs": list[float]()}
    with harness.web_server() as port, psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        client = harness.Client(port, key)
        for number in range(WARM + rounds):
            session = client.answer("POST", "sessions", _user(number))["id"]
            body = {"messages": [{"role": "user", "content": text_by(chance, 25)} for _ in range(100)]}
            status, took = client.ask("POST", f"/api/v1/sessions/{session}/messages", body)
            if status != 201:
                raise SystemExit(f"A batch was answered with {status}: {client.body[:500]!r}")
            milliseconds["HTTP"].append(took)
            milliseconds["plain INSERTs"].append(_insert_again(connection, session))
    figures = {name: harness.percentiles(each[WARM:]) for name, each in milliseconds.items()}
    return {**figures, "INSERTs / HTTP": {"p50": figures["plain INSERTs"]["p50"] / figures["HTTP"]["p50"]}}


def _insert_again(connection: Any, session: str) -> float:
    """Take a session's messages and their index rows out, insert them again as they were; return milliseconds."""
    from psycopg import ClientCursor
    from psycopg.types.json import Jsonb

    statements, cursor = list[tuple[str, Sequence[Any]]](), ClientCursor(connection)
    for table in BATCH_TABLES:
        cursor.execute(f"SELECT * FROM {table} WHERE session_id = %s", [session])
        rows = [[Jsonb(each) if isinstance(each, dict) else each for each in row] for row in cursor.fetchall()]
        names = ", ".join(column.name for column in cursor.description or ())
        marks = ", ".join([f"({', '.join(['%s'] * len(rows[0]))})"] * len(rows))
        statements.append((f"INSERT INTO {table} ({names}) VALUES {marks}", [*chain(*rows)]))
    for table in reversed(BATCH_TABLES):
        cursor.execute(f"DELETE FROM {table} WHERE session_id = %s", [session])
    connection.commit()
    began = time.perf_counter()
    for statement, values in statements:
        cursor.execute(statement, values)
    connection.commit()
    return 1000 * (time.perf_counter() - began)


def main() -> int:
    parser = harness.parser_of(__doc__)
    parser.add_argument("--rounds", type=harness.positive, default=60)
    parser.add_argument("--profile", choices=KINDS, help="print a profile of this kind instead")
    parser.add_argument("--flame-graph", type=Path, help="draw the profile into this file (SVG) instead")
    parser.add_argument("--ingestion", action="store_true", help="compare batches with plain INSERTs instead")
    parser.add_argument("--sort", choices=("cumtime", "tottime"), default="cumtime")
    options = parser.parse_args()
    with harness.installation():
        key = harness.everything_key()
        if options.ingestion:
            harness.tell(ingestion(key, options.rounds), options)
            return 0
        asker = Asker(key)
        if options.profile and options.flame_graph:
            stacks = sampled(asker, options.profile, options.rounds)
            samples = f"processor time of Python, {sum(stacks.values()):,} samples"
            options.flame_graph.write_text(flame_graph(stacks, f"{options.profile}: {samples}"))
        elif options.profile:
            print(profile(asker, options.profile, options.rounds, options.sort))
        else:
            harness.tell([cost(asker, kind, options.rounds) for kind in KINDS], options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
