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
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
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
class Asked:
    """One question of one user."""

    agent_id: str
    user_id: str
    question: str
    session_id: str

    @property
    def tenant(self) -> dict[str, str]:
        """Return whose memory it is about, as the API wants it."""
        return {"agent_id": self.agent_id, "user_id": self.user_id}


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

    def search(self, asked: Asked) -> float:
        """Search memories; return milliseconds."""
        return self.post("/memories/search", {**asked.tenant, "query": asked.question, "limit": LIMIT})[0]

    def search_both(self, asked: Asked) -> float:
        """Search memories and messages; return milliseconds."""
        body = {**asked.tenant, "query": asked.question, "limit": LIMIT, "include_messages": True}
        return self.post("/memories/search", body)[0]

    def assemble(self, asked: Asked) -> float:
        """Assemble a context with every layer there is; return milliseconds."""
        body = {**asked.tenant, "message": asked.question, "session_id": asked.session_id}
        return self.post("/context", body)[0]


class PlainSql:
    """The statements of a search, recorded once for each question, and sent again by psycopg."""

    def __init__(self) -> None:
        import psycopg
        from django.conf import settings

        database = settings.DATABASES["default"]
        self._connection = psycopg.connect(
            host=database["HOST"], port=database["PORT"], dbname=database["NAME"], user=database["USER"],
            password=database["PASSWORD"], autocommit=True,
        )  # fmt: skip
        self._cursor = psycopg.ClientCursor(self._connection)
        self._recorded: dict[Asked, list[tuple[str, Any]]] = {}

    def record(self, asked: Asked) -> None:
        """Search once through the action, and note what it sends."""
        from django.db import connection

        from memoryhub.auth.domain import command
        from memoryhub.auth.tenancy import tenant_for_reading
        from memoryhub.embeddings.spaces import text_query
        from strength.actions.search import MemorySearch, search_memories

        statements: list[tuple[str, Any]] = []

        def note(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
            statements.append((sql, params))
            return execute(sql, params, many, context)

        by = command("bench")
        with connection.execute_wrapper(note):
            tenant = tenant_for_reading(by, asked.agent_id, asked.user_id)
            search = MemorySearch(query=text_query(asked.question), limit=LIMIT)
            search_memories(tenant=tenant, search=search, by=by, mark=True, now=datetime.now(UTC))
        self._recorded[asked] = statements

    def scan(self, asked: Asked) -> float:
        """Send the statement that reads the actor's rows; return milliseconds."""
        return self._send([each for each in self._recorded[asked] if each[0].lstrip().startswith(SCAN)])

    def everything(self, asked: Asked) -> float:
        """Send all statements of the search; return milliseconds."""
        return self._send(self._recorded[asked])

    def _send(self, statements: Sequence[tuple[str, Any]]) -> float:
        started = time.perf_counter()
        for sql, params in statements:
            self._cursor.execute(sql, params)
            if self._cursor.description:
                self._cursor.fetchall()
        return (time.perf_counter() - started) * 1000

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()


@dataclass
class Report:
    """What was measured at one size: milliseconds by name of what was done, and everything else as it is."""

    rows: int
    laid: str
    """How the rows of an actor lie: as they came, or gathered."""
    milliseconds: dict[str, list[float]] = field(default_factory=dict)
    sizes: dict[str, str] = field(default_factory=dict)

    def figures(self) -> dict[str, Any]:
        """Return percentiles by name, and the ratios that the sizes are judged by."""
        timings = {name: harness.percentiles(values) for name, values in self.milliseconds.items()}
        return {"rows": self.rows, "laid": self.laid, "milliseconds": timings, "sizes": self.sizes}


def measure(size: Any, laid: str, rounds: int, key: str, cluster: Any, tick: Callable[[str], None]) -> Report:
    """Ask a filled installation: each of some actors for the first time, then others again and again."""
    report = Report(size.actors * size.memories, laid)
    users = list(range(size.actors))
    random.Random(5).shuffle(users)
    cold, warm = users[:COLD_ACTORS], users[-WARM_ACTORS:]
    where = harness.chill(cluster) if cluster else "as it is"
    with harness.WebServer.started() as server:
        client = Client(server.port, key)
        for asked in _asked(size, cold[:1], 3):
            client.assemble(asked)  # the web server itself is warm
        if size.actors > len(cold) + len(warm):
            report.milliseconds[f"search, first of an actor, {where}"] = [
                client.search(asked) for asked in _asked(size, cold[1:], 1)
            ]
        _warm(client, size, warm, rounds, report, tick)
    report.sizes = _sizes()
    return report


def _warm(
    client: Client, size: Any, users: Sequence[int], rounds: int, report: Report, tick: Callable[[str], None]
) -> None:
    plain = PlainSql()
    steps: dict[str, Callable[[Asked], float]] = {
        "search": client.search,
        "its scan by psycopg": plain.scan,
        "its SQL by psycopg": plain.everything,
        "search with messages": client.search_both,
        "context": client.assemble,
    }
    for asked in _asked(
        size, users, 2
    ):  # once unmeasured: every actor's pages, and all questions' statements
        plain.record(asked)
        client.assemble(asked)
    for number, asked in enumerate(itertools.islice(itertools.cycle(_asked(size, users, 2)), rounds)):
        names = list(steps)
        start = number % len(names)  # nobody always comes first, when the rows are least at hand
        for name in names[start:] + names[:start]:
            report.milliseconds.setdefault(name, []).append(steps[name](asked))
        tick(f"asking, {report.rows:,} rows {report.laid}")
    plain.close()


def _asked(size: Any, users: Sequence[int], questions_each: int) -> Iterator[Asked]:
    import filling

    texts = iter(filling.questions(len(users) * questions_each, seed=9))
    for _ in range(questions_each):
        for number in users:
            agent, user = size.user(number)
            yield Asked(agent, user, next(texts), filling.session_of(size, number))


def _sizes() -> dict[str, str]:
    import filling
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname, pg_size_pretty(pg_table_size(oid)), pg_size_pretty(pg_indexes_size(oid)) "
            "FROM pg_class WHERE relname = ANY(%s)",
            [[name for names in filling.TABLES.values() for name in names]],
        )
        return {name: f"{table} + indexes {indexes}" for name, table, indexes in sorted(cursor.fetchall())}


def ingest(key: str, count: int, tick: Callable[[str], None]) -> dict[str, float]:
    """Return messages per second: through the action, over HTTP, and of plain INSERTs of the same rows."""
    import filling

    contents = list(filling.texts(count, seed=77))
    batches = [contents[start : start + BATCH] for start in range(0, count, BATCH)]
    rates = {
        "plain INSERTs": _rate(_insert_plainly(batches), tick),
        "action": _rate(_add_by_action(batches), tick),
    }
    with harness.WebServer.started() as server:
        rates["HTTP"] = _rate(_add_over_http(Client(server.port, key), batches), tick)
    return rates


def _rate(seconds: Iterator[float], tick: Callable[[str], None]) -> float:
    taken = []
    for each in seconds:
        taken.append(each)
        tick("ingesting")
    return round(BATCH / sorted(taken)[len(taken) // 2], 1)


def _timed(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def _add_by_action(batches: Sequence[Sequence[str]]) -> Iterator[float]:
    from conversations.actions.messages import add_messages
    from conversations.actions.sessions import open_session
    from conversations.domain.messages import NewMessage, Role
    from memoryhub.auth.domain import command
    from memoryhub.auth.tenancy import actor_for_writing

    by, now = command("bench"), datetime.now(UTC)
    actor = actor_for_writing(by, "ingestion", "action", now=now)
    for batch in batches:
        session, _ = open_session(actor=actor, session_id=None, channel="api", by=by, now=now)
        new = [NewMessage(role=Role.USER, content=content) for content in batch]
        yield _timed(
            lambda session=session, new=new: add_messages(session=session, batch=new, by=by, now=now)
        )


def _add_over_http(client: Client, batches: Sequence[Sequence[str]]) -> Iterator[float]:
    for batch in batches:
        session = client.post("/sessions", {"agent_id": "ingestion", "user_id": "http"})[1]["id"]
        body = {"messages": [{"role": "user", "content": content} for content in batch]}
        path = f"/sessions/{session}/messages"
        yield _timed(lambda path=path, body=body: client.post(path, body))


def _insert_plainly(batches: Sequence[Sequence[str]]) -> Iterator[float]:
    """Insert what the action would: the same rows into the same tables, analysed and embedded beforehand."""
    from django.db import connection, transaction
    from pgvector import HalfVector

    from conversations.actions.sessions import open_session
    from memoryhub.auth.domain import command
    from memoryhub.auth.tenancy import actor_for_writing
    from memoryhub.embeddings.spaces import active_space, provider_of
    from memoryhub.ids import new_id
    from memoryhub.search.analysis import analyse
    from memoryhub.search.bm25 import WORDS_VERSION
    from memoryhub.search.index import word_vector

    by, now, space = command("bench"), datetime.now(UTC), active_space()
    actor = actor_for_writing(by, "ingestion", "plain", now=now)

    def insert(messages: Sequence[tuple[Any, ...]], found_by: Sequence[tuple[Any, ...]]) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            for statement, rows in ((INSERT_MESSAGE, messages), (INSERT_INDEX, found_by)):
                each = f"({','.join(['%s'] * len(rows[0]))})"
                cursor.execute(statement + ",".join([each] * len(rows)), list(itertools.chain(*rows)))

    for batch in batches:
        session, _ = open_session(actor=actor, session_id=None, channel="api", by=by, now=now)
        ids = [new_id() for _ in batch]
        vectors = provider_of(space).embed(batch).tolist()
        messages = [
            (ids[number], actor.id, session.id, number + 1, "user", "", content, 10, "trusted", now, "{}")
            for number, content in enumerate(batch)
        ]
        found_by = [
            (actor.id, space.pk, ids[number], session.id, number + 1, "trusted", "", False,
             HalfVector(vectors[number]).to_text(), word_vector(analyse(content)).to_text(), WORDS_VERSION)
            for number, content in enumerate(batch)
        ]  # fmt: skip
        yield _timed(lambda messages=messages, found_by=found_by: insert(messages, found_by))


INSERT_MESSAGE = (
    "INSERT INTO conversations_message (id, actor_id, session_id, seq, role, author, content, token_count, trust, "
    "created_at, metadata) VALUES "
)
INSERT_INDEX = (
    "INSERT INTO conversations_messageindex (actor_id, space_id, message_id, session_id, seq, trust, author, asks, "
    "vector, words, words_version) "
    "VALUES "
)


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
            figures.append(measure(size, AS_THEY_CAME, arguments.rounds, key, cluster, tick).figures())
            bar.update(task, description="gathering")
            call_command("cluster_tables", stdout=io.StringIO())
            figures.append(measure(size, GATHERED, arguments.rounds, key, cluster, tick).figures())
        ingested = ingest(key, arguments.ingest, tick)
    return {
        "settings": vars(arguments) | {"png": None, "keep": None},
        "by_size": figures,
        "ingestion": ingested,
    }


def ratios(figures: dict[str, Any]) -> list[tuple[str, float]]:
    """Return what one figure is of another: the largest size against its own plain SQL, and against the smallest."""
    found = []
    for laid in (AS_THEY_CAME, GATHERED):
        sizes = [each for each in figures["by_size"] if each["laid"] == laid]
        smallest, largest = sizes[0], sizes[-1]
        for name in ("its scan by psycopg", "its SQL by psycopg"):
            ratio = _p50(largest, "search") / _p50(largest, name)
            found.append((f"search / {name}, p50, {largest['rows']:,} rows {laid}", ratio))
        if largest is not smallest:
            grown = f"p50, {smallest['rows']:,} to {largest['rows']:,} rows {laid}"
            names = ("search", "its scan by psycopg", "search with messages", "context")
            found += [(f"{name}, {grown}", _p50(largest, name) / _p50(smallest, name)) for name in names]
    return found


def _p50(figures: dict[str, Any], name: str) -> float:
    return float(figures["milliseconds"][name]["p50"])


def show(figures: dict[str, Any], console: Console) -> None:
    """Print the tables."""
    for by_size in figures["by_size"]:
        table = Table(
            "milliseconds",
            "p50",
            "p95",
            "p99",
            title=f"{by_size['rows']:,} rows of each kind, {by_size['laid']}",
        )
        for name, values in by_size["milliseconds"].items():
            table.add_row(name, *(f"{values[each]:.1f}" for each in ("p50", "p95", "p99")))
        console.print(table)
    table = Table("ratio", "")
    for name, value in ratios(figures):
        table.add_row(name, f"{value:.2f}")
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
        _draw_one(axes, [each for each in figures["by_size"] if each["laid"] == laid], laid)
    figure.suptitle("Server side: median (solid) and 95th percentile (dotted)")
    figure.savefig(path, dpi=120)


def _draw_one(axes: Any, by_size: Sequence[dict[str, Any]], laid: str) -> None:
    sizes = [each["rows"] for each in by_size]
    for name in ("context", "search with messages", "search", "its scan by psycopg"):
        timings = [each["milliseconds"][name] for each in by_size]
        (line,) = axes.plot(sizes, [each["p50"] for each in timings], marker="o", label=name)
        axes.plot(sizes, [each["p95"] for each in timings], linestyle=":", color=line.get_color())
    axes.set(
        xscale="log", xlabel="rows of each kind, 5,000 of each actor", ylabel="milliseconds", ylim=(0, None),
        title=f"rows {laid}",
    )  # fmt: skip
    axes.legend()


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 on")
    return int(text)


def _hundreds(text: str) -> int:
    if _positive(text) % BATCH:
        raise argparse.ArgumentTypeError(f"{text} is not a multiple of {BATCH}")
    return int(text)


def _sizes_of(text: str) -> list[int]:
    return sorted(map(_positive, text.split(",")))


def main() -> None:
    """Read the command line, measure, and tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    harness.common_arguments(parser)
    parser.add_argument(
        "--actors", type=_sizes_of, default=[2, 20, 200],
        help="how many actors, with commas: one size each (2,20,200)",
    )  # fmt: skip
    parser.add_argument("--memories", type=_positive, default=5_000, help="memories of each actor (5,000)")
    parser.add_argument(
        "--messages", type=_hundreds, default=5_000, help="messages of each actor, in hundreds (5,000)"
    )
    parser.add_argument(
        "--rounds", type=_positive, default=ROUNDS, help=f"how often each thing is asked ({ROUNDS})"
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
    if arguments.json:
        print(json.dumps(figures, indent=2))
    else:
        show(figures, harness.console())


if __name__ == "__main__":
    main()
