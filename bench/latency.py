"""Measure how long searches and contexts take in a full installation, beside the same SQL sent plainly.

    python bench/latency.py                                  # 10,000, 100,000 and 1,000,000 rows: ten minutes
    python bench/latency.py --actors 2,20                    # a quick look
    python bench/latency.py --json > figures.json --png growth.png

Each size is filled anew, the rows of all actors by turns (`filling.py`), and asked through the web server that
`make run` starts, by one client: first with the rows where they came to lie, then after `manage.py cluster_tables`.
Server side is the `Server-Timing` that its middleware writes: from the first middleware to the response. The
plain SQL is what the search itself sends, recorded, and sent by psycopg from this process; requests and
statements come by turns, so that whatever else the machine does meets both.
"""

import argparse
import io
import itertools
import json
import os
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import Any, Final

import harness
from rich.console import Console
from rich.table import Table

ROUNDS: Final = 200
COLD_ACTORS: Final = 30
WARM_ACTORS: Final = 20
INGESTED: Final = 5_000
BATCH: Final = 100
LIMIT: Final = 10
AS_THEY_CAME: Final = "as they came"
GATHERED: Final = "gathered"
SCAN: Final = "WITH scored"
"""How the one statement begins that reads an actor's rows."""


@dataclass(frozen=True)
class Question:
    """One question of one user."""

    agent_id: str
    user_id: str
    text: str
    session_id: str


class Client:
    """One client with one connection that is kept."""

    def __init__(self, port: int, key: str) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def post(self, path: str, body: dict[str, Any]) -> tuple[float, Any]:
        """Return what the server says it took, in milliseconds, and the answer."""
        self._connection.request("POST", f"/api/v1{path}", json.dumps(body), self._headers)
        response = self._connection.getresponse()
        answer = json.loads(response.read())
        if response.status not in (200, 201):
            raise SystemExit(f"{path} answered {response.status}: {answer}")
        return float(response.headers["Server-Timing"].partition("dur=")[2]), answer

    def search(self, question: Question, **options: Any) -> float:
        """Search memories; return milliseconds."""
        body = {"agent_id": question.agent_id, "user_id": question.user_id, "query": question.text}
        return self.post("/memories/search", {**body, "limit": LIMIT, **options})[0]

    def search_both(self, question: Question) -> float:
        return self.search(question, include_messages=True)

    def assemble(self, question: Question) -> float:
        """Assemble a context with every layer there is; return milliseconds."""
        body = {"agent_id": question.agent_id, "user_id": question.user_id, "message": question.text}
        return self.post("/context", {**body, "session_id": question.session_id})[0]


class PlainSql:
    """The statements of a search, recorded once for each question, and sent again by psycopg."""

    def __init__(self) -> None:
        import psycopg

        self._connection = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
        self._cursor = psycopg.ClientCursor(self._connection)
        self._recorded: dict[Question, list[tuple[str, Any]]] = {}

    def record(self, question: Question) -> None:
        """Search once through the action, and note what it sends."""
        from django.db import connection

        from memoryhub.auth.domain import command
        from memoryhub.auth.tenancy import tenant_for_reading
        from memoryhub.embeddings.spaces import text_query
        from strength.actions.search import MemorySearch, search_memories

        statements = self._recorded.setdefault(question, [])

        def note(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
            statements.append((sql, params))
            return execute(sql, params, many, context)

        by = command("bench")
        with connection.execute_wrapper(note):
            tenant = tenant_for_reading(by, question.agent_id, question.user_id)
            search = MemorySearch(query=text_query(question.text), limit=LIMIT)
            search_memories(tenant=tenant, search=search, by=by, mark=True, now=datetime.now(UTC))

    def scan(self, question: Question) -> float:
        """Send the statement that reads the actor's rows; return milliseconds."""
        return self._send([each for each in self._recorded[question] if each[0].lstrip().startswith(SCAN)])

    def everything(self, question: Question) -> float:
        return self._send(self._recorded[question])

    def _send(self, statements: Sequence[tuple[str, Any]]) -> float:
        started = time.perf_counter()
        for sql, params in statements:
            self._cursor.execute(sql, params)
            if self._cursor.description:
                self._cursor.fetchall()
        return (time.perf_counter() - started) * 1000

    def close(self) -> None:
        self._connection.close()


def measure(
    size: Any, laid: str, rounds: int, key: str, cluster: Any, tick: Callable[[str], None]
) -> dict[str, Any]:
    """Ask a filled installation: each of some actors for the first time, then others again and again."""
    rows, milliseconds = size.actors * size.memories, defaultdict(list)
    users = list(range(size.actors))
    random.Random(5).shuffle(users)
    cold, warm = users[:COLD_ACTORS], users[-WARM_ACTORS:]
    where = harness.chill(cluster) if cluster else "as it is"
    with harness.web_server() as port:
        client, plain = Client(port, key), PlainSql()
        for question in _questions(size, cold[:1], 3):
            client.assemble(question)  # the web server itself is warm
        if size.actors > len(cold) + len(warm):
            for question in _questions(size, cold[1:], 1):
                milliseconds[f"search, first of an actor, {where}"].append(client.search(question))
        steps: list[tuple[str, Callable[[Question], float]]] = [
            ("search", client.search), ("its scan by psycopg", plain.scan), ("its SQL by psycopg", plain.everything),
            ("search with messages", client.search_both), ("context", client.assemble),
        ]  # fmt: skip
        questions = list(_questions(size, warm, 2))
        for question in questions:  # once unmeasured: every actor's pages, and all questions' statements
            plain.record(question)
            client.assemble(question)
        for number, question in enumerate(itertools.islice(itertools.cycle(questions), rounds)):
            start = number % len(steps)  # nobody always comes first, when the rows are least at hand
            for name, step in steps[start:] + steps[:start]:
                milliseconds[name].append(step(question))
            tick(f"asking, {rows:,} rows {laid}")
        plain.close()
    timings = {name: harness.percentiles(values) for name, values in milliseconds.items()}
    return {"rows": rows, "laid": laid, "milliseconds": timings, "sizes": _table_sizes()}


def _questions(size: Any, users: Sequence[int], each: int) -> Iterator[Question]:
    import filling

    texts = iter(filling.questions(len(users) * each, seed=9))
    for _ in range(each):
        for number in users:
            yield Question(*size.user(number), next(texts), filling.newest_session(number))


def _table_sizes() -> dict[str, str]:
    import filling
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname, pg_size_pretty(pg_table_size(oid)), pg_size_pretty(pg_indexes_size(oid)) "
            "FROM pg_class WHERE relname = ANY(%s)",
            [list(filling.TABLES)],
        )
        return {name: f"{table} + indexes {indexes}" for name, table, indexes in sorted(cursor.fetchall())}


def ingest(key: str, count: int, tick: Callable[[str], None]) -> dict[str, float]:
    """Return messages per second: through the action, of plain INSERTs of the same rows, and over HTTP."""
    import filling

    contents = list(filling.texts(count, seed=77))
    batches = [contents[start : start + BATCH] for start in range(0, count, BATCH)]

    def rate(seconds: Iterator[float]) -> float:
        taken = []
        for each in seconds:
            taken.append(each)
            tick("ingesting")
        return round(BATCH / median(taken), 1)

    sessions: list[Any] = []
    rates = {
        "action": rate(_add_by_action(batches, sessions)),
        "plain INSERTs": rate(_insert_again(sessions)),
    }
    with harness.web_server() as port:
        rates["HTTP"] = rate(_add_over_http(Client(port, key), batches))
    return rates


def _timed(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def _add_by_action(batches: Sequence[Sequence[str]], sessions: list[Any]) -> Iterator[float]:
    from conversations.actions.messages import add_messages
    from conversations.actions.sessions import open_session
    from conversations.domain.messages import NewMessage, Role
    from memoryhub.auth.domain import command
    from memoryhub.auth.tenancy import actor_for_writing

    by, now = command("bench"), datetime.now(UTC)
    actor = actor_for_writing(by, "ingestion", "action", now=now)
    for batch in batches:
        session, _ = open_session(actor=actor, session_id=None, channel="api", by=by, now=now)
        sessions.append(session.pk)
        new = [NewMessage(role=Role.USER, content=content) for content in batch]
        yield _timed(
            lambda session=session, new=new: add_messages(session=session, batch=new, by=by, now=now)
        )


def _insert_again(sessions: Sequence[Any]) -> Iterator[float]:
    """Take the rows of each session that the action wrote, and insert them again."""
    from django.db import connection, transaction

    tables = ("conversations_message", "conversations_messageindex")
    for session in sessions:
        with transaction.atomic(), connection.cursor() as cursor:
            statements = []
            for table in tables:
                cursor.execute(f"SELECT * FROM {table} WHERE session_id = %s", [session])
                names = ", ".join(f'"{column.name}"' for column in cursor.description)
                rows = cursor.fetchall()
                marks = ", ".join([f"({', '.join(['%s'] * len(rows[0]))})"] * len(rows))
                values = list(itertools.chain(*rows))
                statements.append((f"INSERT INTO {table} ({names}) VALUES {marks}", values))
            for table in reversed(tables):
                cursor.execute(f"DELETE FROM {table} WHERE session_id = %s", [session])

        def insert(statements: Sequence[tuple[str, Any]] = statements) -> None:
            with transaction.atomic(), connection.cursor() as cursor:
                for statement, values in statements:
                    cursor.execute(statement, values)

        yield _timed(insert)


def _add_over_http(client: Client, batches: Sequence[Sequence[str]]) -> Iterator[float]:
    for batch in batches:
        session = client.post("/sessions", {"agent_id": "ingestion", "user_id": "http"})[1]["id"]
        body = {"messages": [{"role": "user", "content": content} for content in batch]}
        path = f"/sessions/{session}/messages"
        yield _timed(lambda path=path, body=body: client.post(path, body))


def run(arguments: argparse.Namespace, cluster: Any) -> dict[str, Any]:
    """Fill, ask and ingest at every size; return all figures."""
    import filling
    from django.core.management import call_command

    key = harness.everything_key()
    filling.make_pool()
    figures: list[dict[str, Any]] = []
    with harness.progress(quiet=arguments.json) as bar:
        task = bar.add_task(
            "", total=2 * len(arguments.actors) * arguments.rounds + 3 * arguments.ingest // BATCH
        )

        def tick(what: str) -> None:
            bar.update(task, advance=1, description=what)

        for actors in arguments.actors:
            size = filling.Size(actors, arguments.memories, arguments.messages)
            bar.update(task, description=f"filling, {actors * arguments.memories:,} rows of each kind")
            filling.empty()
            filling.fill(size)
            figures.append(measure(size, AS_THEY_CAME, arguments.rounds, key, cluster, tick))
            bar.update(task, description="gathering")
            call_command("cluster_tables", stdout=io.StringIO())
            figures.append(measure(size, GATHERED, arguments.rounds, key, cluster, tick))
        settings = vars(arguments) | {"png": None, "keep": None}
        return {"settings": settings, "by_size": figures, "ingestion": ingest(key, arguments.ingest, tick)}


def show(figures: dict[str, Any], console: Console) -> None:
    for by_size in figures["by_size"]:
        title = f"{by_size['rows']:,} rows of each kind, {by_size['laid']}"
        table = Table("milliseconds", "p50", "p95", "p99", title=title)
        for name, values in by_size["milliseconds"].items():
            table.add_row(name, *(f"{values[each]:.1f}" for each in ("p50", "p95", "p99")))
        console.print(table)
    table = Table("messages per second, median batch of 100", "")
    for name, rate in figures["ingestion"].items():
        table.add_row(name, f"{rate:,.0f}")
    console.print(table)
    for name, size in figures["by_size"][-1]["sizes"].items():
        console.print(f"{name}: {size}")


def draw(figures: dict[str, Any], path: Path) -> None:
    """Draw how the medians (solid) and 95th percentiles (dotted) grow with the number of rows."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, both = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained", sharey=True)
    for axes, laid in zip(both, (AS_THEY_CAME, GATHERED), strict=True):
        by_size = [each for each in figures["by_size"] if each["laid"] == laid]
        rows = [each["rows"] for each in by_size]
        for name in ("context", "search with messages", "search", "its scan by psycopg"):
            timings = [each["milliseconds"][name] for each in by_size]
            (line,) = axes.plot(rows, [each["p50"] for each in timings], marker="o", label=name)
            axes.plot(rows, [each["p95"] for each in timings], linestyle=":", color=line.get_color())
        axes.set(
            xscale="log", xlabel="rows of each kind, 5,000 of each actor", ylabel="milliseconds", ylim=(0, None),
            title=f"rows {laid}",
        )  # fmt: skip
        axes.legend()
    figure.suptitle("Server side: median (solid) and 95th percentile (dotted)")
    figure.savefig(path, dpi=120)


def _hundreds(text: str) -> int:
    if harness.positive(text) % BATCH:
        raise argparse.ArgumentTypeError(f"{text} is not a multiple of {BATCH}")
    return int(text)


def main() -> None:
    parser = harness.parser_of(__doc__)
    harness.common_arguments(parser)
    parser.add_argument(
        "--actors", type=lambda text: sorted(map(harness.positive, text.split(","))), default=[2, 20, 200],
        help="how many actors, with commas: one size each (2,20,200)",
    )  # fmt: skip
    parser.add_argument(
        "--memories", type=harness.positive, default=5_000, help="memories of each actor (5,000)"
    )
    parser.add_argument(
        "--messages", type=_hundreds, default=5_000, help="messages of each actor, in hundreds (5,000)"
    )
    parser.add_argument(
        "--rounds", type=harness.positive, default=ROUNDS, help=f"how often each thing is asked ({ROUNDS})"
    )
    parser.add_argument(
        "--ingest", type=_hundreds, default=INGESTED, help=f"messages to ingest, in hundreds ({INGESTED:,})"
    )
    parser.add_argument("--png", type=Path, help="draw how it grows into this file")
    arguments = parser.parse_args()
    with harness.installation(database_url=arguments.database_url, keep=arguments.keep) as cluster:
        figures = run(arguments, cluster)
    if arguments.png:
        draw(figures, arguments.png)
    harness.tell(figures, arguments, show)


if __name__ == "__main__":
    main()
