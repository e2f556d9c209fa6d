"""Measure how long searches and contexts take in a full installation (SPEC Q2), and the same SQL alone.

    python bench/latency.py                                  # 10,000, 100,000 and 1,000,000 rows: ten minutes
    python bench/latency.py --actors 2,20                    # a quick look
    python bench/latency.py --json > figures.json

Each size is filled anew, the rows of all actors by turns (`filling.py`), and asked through the web server that
`make run` starts, by one client: first with the rows where they came to lie, then after the job `cluster_tables`, which
runs while others write and search.
Server side is the `Server-Timing` that its middleware writes: from the first middleware to the response. The
plain SQL is what the search itself sends, recorded, and sent by psycopg from this process; requests and
statements come by turns, so that whatever else the machine does meets both.
"""

import argparse
import itertools
import os
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple

import harness

ROUNDS: Final = 200
COLD_ACTORS: Final = 30
WARM_ACTORS: Final = 20
BATCH: Final = 100
LIMIT: Final = 10
AS_THEY_CAME: Final = "as they came"
GATHERED: Final = "after cluster_tables"
QUIET_SECONDS: Final = 10.0
SCAN: Final = "WITH scored"
"""How the one statement begins that reads an actor's rows."""


class Question(NamedTuple):
    """One question of one user."""

    agent_id: str
    user_id: str
    text: str
    session_id: str


class Client(harness.Client):
    """One client with one connection that is kept; its calls return what the server says they took, in ms."""

    def search(self, question: Question, **options: Any) -> float:
        return self._timed("memories/search", question, query=question.text, limit=LIMIT, **options)

    def assemble(self, question: Question) -> float:
        """Assemble a context with every layer there is."""
        return self._timed("context", question, message=question.text, session_id=question.session_id)

    def _timed(self, path: str, question: Question, **body: Any) -> float:
        self.answer("POST", path, {"agent_id": question.agent_id, "user_id": question.user_id, **body})
        return float(self.headers["Server-Timing"].partition("dur=")[2])


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

        from memoryhub.auth.access import tenant_for_reading
        from memoryhub.auth.principals import command
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


def measure(size: Any, laid: str, rounds: int, key: str, cluster: Any) -> dict[str, Any]:
    """Ask a filled installation: each of some actors for the first time, then others again and again."""
    rows, milliseconds = size.actors * size.memories, defaultdict(list)
    harness.say(f"asking, {rows:,} rows of each kind {laid}")
    users = list(range(size.actors))
    random.Random(5).shuffle(users)
    cold, warm = users[:COLD_ACTORS], users[-WARM_ACTORS:]
    where = harness.chill(cluster)
    with harness.web_server() as port:
        client, plain = Client(port, key), PlainSql()
        for question in _questions(size, cold[:1], 3):
            client.assemble(question)  # the web server itself is warm
        if size.actors > len(cold) + len(warm):
            for question in _questions(size, cold[1:], 1):
                milliseconds[f"search, first of an actor, {where}"].append(client.search(question))
        steps: list[tuple[str, Callable[[Question], float]]] = [
            ("search", client.search),
            ("its scan by psycopg", plain.scan),
            ("its SQL by psycopg", plain.everything),
            ("search with messages", partial(client.search, include_messages=True)),
            ("context", client.assemble),
        ]
        questions = list(_questions(size, warm, 2))
        for question in questions:  # once unmeasured: every actor's pages, and all questions' statements
            plain.record(question)
            client.assemble(question)
        for number, question in enumerate(itertools.islice(itertools.cycle(questions), rounds)):
            start = number % len(steps)  # nobody always comes first, when the rows are least at hand
            for name, step in steps[start:] + steps[:start]:
                milliseconds[name].append(step(question))
        plain.close()
    timings = {name: harness.percentiles(values) for name, values in milliseconds.items()}
    return {"rows": rows, "laid": laid, "milliseconds": timings, "sizes": _table_sizes()}


def _questions(size: Any, users: Sequence[int], each: int) -> Iterator[Question]:
    import filling

    texts = iter(filling.questions(len(users) * each, seed=9))
    for _ in range(each):
        for number in users:
            yield Question(*size.user(number), next(texts), filling.newest_session(number))


def gather(size: Any, key: str) -> dict[str, Any]:
    """Lay the rows together while clients write and search; return how long each waited, with and without that."""
    from memoryhub.search.clustering import Clustering
    from memoryhub.search.models import index_models

    waited: dict[str, list[float]] = defaultdict(list)
    when, before, tables = ["alone"], _table_sizes(), {}
    with harness.web_server() as port:
        works = [partial(_ask_and_wait, Client(port, key), size, what, waited, when) for what in ("search", "write")]
        with harness.in_threads(*works):
            time.sleep(QUIET_SECONDS)
            when[0] = "meanwhile"
            for model in index_models():
                clustering, started = Clustering(model), time.perf_counter()
                rows = sum(clustering.run(now=datetime.now(UTC)))
                seconds = time.perf_counter() - started
                tables[model._meta.db_table] = {
                    "rows": rows,
                    "seconds": round(seconds, 1),
                    "seconds_per_million": round(seconds / max(1, rows) * 1e6, 1),
                    "longest_lock_ms": round(clustering.max_lock_seconds * 1000, 1),
                }
    for name, after in _table_sizes().items():
        if name in tables:
            tables[name]["grown"] = round(after["table"] / before[name]["table"], 3)
    waits = {name: {**harness.percentiles(each), "max": round(max(each), 1)} for name, each in waited.items()}
    return {"tables": tables, "waits": waits}


def _ask_and_wait(client: Client, size: Any, what: str, waited: Any, when: list[str]) -> None:
    """Search or write once for somebody, note how long that took, and pause."""
    number = random.randrange(size.actors)
    agent_id, user_id = size.user(number)
    body = {"agent_id": agent_id, "user_id": user_id}
    if what == "search":
        path, body = "memories/search", {**body, "query": "what was it about", "include_messages": True}
    else:
        path, body = "memories", {**body, "kind": "note", "content": f"written meanwhile {random.random()}"}
    status, milliseconds = client.ask("POST", f"/api/v1/{path}", body)
    if status not in (200, 201):
        raise SystemExit(f"POST {path} answered {status}: {client.body[:500]!r}")
    waited[f"{what}, {when[0]}"].append(milliseconds)
    time.sleep(0.05)


def _table_sizes() -> dict[str, dict[str, int]]:
    """Return the bytes of the tables that are filled, and of their indexes."""
    import filling
    from django.db import connection

    with connection.cursor() as cursor:
        sql = "SELECT relname, pg_table_size(oid), pg_indexes_size(oid) FROM pg_class WHERE relname = ANY(%s)"
        cursor.execute(sql, [list(filling.TABLES)])
        return {name: {"table": table, "indexes": indexes} for name, table, indexes in sorted(cursor.fetchall())}


def run(arguments: argparse.Namespace, cluster: Any) -> list[dict[str, Any]]:
    """Fill and ask at every size; return all figures."""
    import filling

    key, figures = harness.everything_key(), list[dict[str, Any]]()
    filling.make_pool()
    for actors in arguments.actors:
        size = filling.Size(actors, arguments.memories, arguments.messages)
        harness.say(f"filling, {actors * arguments.memories:,} rows of each kind")
        filling.empty()
        filling.fill(size)
        figures.append(measure(size, AS_THEY_CAME, arguments.rounds, key, cluster))
        harness.say("laying rows together")
        gathering = gather(size, key)
        figures.append(measure(size, GATHERED, arguments.rounds, key, cluster) | {"gathering": gathering})
    return figures


def show(figures: list[dict[str, Any]], console: Any) -> None:
    for by_size in figures:
        rows = [{"milliseconds": name, **values} for name, values in by_size["milliseconds"].items()]
        harness.table(console, rows, f"{by_size['rows']:,} rows of each kind, {by_size['laid']}")
        for name, each in by_size.get("gathering", {}).items():
            harness.table(console, [{"": part, **values} for part, values in each.items()], f"cluster_tables: {name}")
    for laid in (AS_THEY_CAME, GATHERED):
        first, *_, last = [each["milliseconds"]["search"]["p50"] for each in figures if each["laid"] == laid] * 2
        console.print(f"A search of most rows takes {last / first:.2f} times as long as one of fewest, {laid}")
    console.print("Sizes:", harness.shown(figures[-1]["sizes"]))


def _hundreds(text: str) -> int:
    if harness.positive(text) % BATCH:
        raise argparse.ArgumentTypeError(f"{text} is not a multiple of {BATCH}")
    return int(text)


def main() -> None:
    parser = harness.parser_of(__doc__)
    parser.add_argument(
        "--actors",
        type=lambda text: sorted(map(harness.positive, text.split(","))),
        default=[2, 20, 200],
        help="one size each (2,20,200)",
    )
    parser.add_argument("--memories", type=harness.positive, default=5_000, help="of each actor (5,000)")
    parser.add_argument("--messages", type=_hundreds, default=5_000, help="of each actor (5,000)")
    parser.add_argument("--rounds", type=harness.positive, default=ROUNDS, help=f"default: {ROUNDS}")
    arguments = parser.parse_args()
    with harness.installation() as cluster:
        figures = run(arguments, cluster)
    harness.tell(figures, arguments, show)


if __name__ == "__main__":
    main()
