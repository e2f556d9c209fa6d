#!/usr/bin/env python
"""Measure what traces cost a search: off, and on with a share of the requests recorded.

.venv/bin/python bench/tracing.py                            2,000 memories, 1,000 searches of each server
.venv/bin/python bench/tracing.py --before ../other --json   also the server of another checkout, without traces

Servers on one database answer the same searches by turns, one after the other; the collector is another process. The
installation is a throw-away one.
"""

import os
import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import Process
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import harness
from bench.load import text_by

NAMES: Final = {"agent_id": "bench", "user_id": "mika"}
BATCH: Final = 500
WARM: Final = 50
SHARES: Final = {"off": None, "on, none recorded": 0.0, "on, a tenth": 0.1, "on, all": 1.0}
BEFORE: Final = "before"
ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
SAMPLER: Final = "OTEL_TRACES_SAMPLER"
SHARE: Final = "OTEL_TRACES_SAMPLER_ARG"


class Accepting(BaseHTTPRequestHandler):
    """Takes all that is sent, and keeps nothing."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: Any) -> None: ...


@contextmanager
def collector() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Accepting)
    process = Process(target=server.serve_forever, daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        process.kill()
        process.join()
        server.server_close()


def servers(stack: ExitStack, endpoint: str, before: Path | None) -> dict[str, int]:
    """Start a server for each share, and that of another checkout; return their ports."""
    ports, own = {}, harness.ROOT
    if before is not None:
        harness.ROOT = before
        ports[BEFORE] = stack.enter_context(harness.web_server())
        harness.ROOT = own
    for name, share in SHARES.items():
        if share is not None:
            os.environ |= {ENDPOINT: endpoint, SAMPLER: "parentbased_traceidratio", SHARE: str(share)}
        ports[name] = stack.enter_context(harness.web_server())
    return ports


def process_at(port: int) -> psutil.Process:
    listening = [each for each in psutil.Process().net_connections() if each.laddr.port == port]
    children = [(child, child.net_connections()) for child in psutil.Process().children()]
    found = [child for child, open_ones in children if any(each.laddr.port == port for each in open_ones)]
    assert found, listening
    return found[0]


def measure(memories: int, searches: int, before: Path | None) -> dict[str, Any]:
    key, chosen = harness.everything_key(), random.Random(5)
    os.environ["MEMORYHUB_WEB_PROCESSES"] = "1"
    with collector() as endpoint, ExitStack() as stack:
        clients = {name: harness.Client(port, key) for name, port in servers(stack, endpoint, before).items()}
        first = next(iter(clients.values()))
        for start in range(0, memories, BATCH):
            rows = [{"content": text_by(chosen)} for _ in range(min(BATCH, memories - start))]
            first.answer("POST", "memories/batch", {**NAMES, "memories": rows})
        took: dict[str, list[float]] = {name: [] for name in clients}
        spent = dict.fromkeys(clients, 0.0)
        processes = {name: process_at(client.port) for name, client in clients.items()}
        for turn in range(WARM + searches):
            if turn == WARM:
                spent = {name: sum(process.cpu_times()[:2]) for name, process in processes.items()}
            body = {**NAMES, "query": text_by(chosen, 12)}
            for name in chosen.sample(list(clients), len(clients)):
                status, milliseconds = clients[name].ask("POST", "/api/v1/memories/search", body)
                if status != 200:
                    raise SystemExit(f"{name}: a search answered {status}.")
                took[name].append(milliseconds)
        spent = {name: sum(process.cpu_times()[:2]) - spent[name] for name, process in processes.items()}
    return {name: figures_of(times[WARM:], spent[name], searches) for name, times in took.items()}


def figures_of(times: list[float], processor_seconds: float, searches: int) -> dict[str, float]:
    """Return percentiles, the mean of the faster nine tenths, and the processor time of a search, in milliseconds."""
    faster = sorted(times)[: max(1, len(times) * 9 // 10)]
    each = {"mean of nine tenths": round(fmean(faster), 3), "processor": round(1000 * processor_seconds / searches, 3)}
    return {**harness.percentiles(times), **each}


def main() -> None:
    parser = harness.parser_of(__doc__)
    parser.add_argument("--memories", type=harness.positive, default=2_000)
    parser.add_argument("--searches", type=harness.positive, default=1_000)
    parser.add_argument("--before", type=Path, help="a checkout of an earlier version, with its own .venv or ours")
    arguments = parser.parse_args()
    with harness.installation():
        harness.tell(measure(arguments.memories, arguments.searches, arguments.before), arguments)


if __name__ == "__main__":
    main()
