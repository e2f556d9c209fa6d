"""From a write to being readable: at once by words, by meaning when the remote embedder's vector is there.

An installation of its own with web and workers, and an embedder on loopback that takes as long as one elsewhere.
"""

import random
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import harness

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.drills import folder
from bench.hub import Hub, eventually

EMBEDDER_SECONDS: Final = 0.1
PAUSE_SECONDS: Final = 0.15
DIMENSION: Final = 384


def measure(writes: int) -> dict[str, Any]:
    """Write messages and memories by turns, one client; return percentiles in milliseconds."""
    from tests.fakes.embeddings_server import EmbeddingsServer

    with folder() as path, EmbeddingsServer(dimension=DIMENSION) as embedder:
        embedder.next_behaviour = lambda: _slowly  # type: ignore[method-assign]
        hub = Hub(path)
        hub.environment |= {
            "MEMORYHUB_EMBEDDING_PROVIDER": "openai",
            "MEMORYHUB_EMBEDDING_MODEL": "text-embedding-3-small",
            "MEMORYHUB_EMBEDDING_BASE_URL": embedder.base_url,
            "MEMORYHUB_EMBEDDING_API_KEY": embedder.key,
            "MEMORYHUB_EMBEDDING_DIMENSION": str(DIMENSION),
        }
        try:
            hub.start()
            if (
                eventually(lambda: f"{hub.workers} workers" in hub.ready()["checks"]["workers"]["detail"], 60)
                is None
            ):
                raise SystemExit("The workers did not start.")
            return _figures(hub, writes)
        finally:
            hub.destroy()


def _slowly(handler: Any, received: Any) -> None:
    from tests.fakes.embeddings_server import answered

    time.sleep(EMBEDDER_SECONDS)
    answered(handler, received)


def _figures(hub: Hub, writes: int) -> dict[str, Any]:
    written: list[float] = []
    by_words: list[float] = []
    by_meaning: list[float] = []
    watchers = []
    for number in range(writes):
        agent_id, word = f"lag-{number % 8}", f"word{uuid4().hex[:10]}"
        began = time.monotonic()
        status, memory = hub.post(
            "memories", {"agent_id": agent_id, "content": f"Remembers {word} since today."}
        )
        if status != 201:
            raise SystemExit(f"A write answered {status}: {memory}")
        acknowledged = time.monotonic()
        written.append((acknowledged - began) * 1000)
        watcher = threading.Thread(target=_watch, args=(hub, memory["id"], acknowledged, by_meaning))
        watcher.start()
        watchers.append(watcher)
        _, found = hub.post("memories/search", {"agent_id": agent_id, "query": word, "limit": 1})
        if [each["memory"]["id"] for each in found["results"]] != [memory["id"]]:
            raise SystemExit("A memory was not found by its words in the first search after its write.")
        by_words.append((time.monotonic() - acknowledged) * 1000)
        time.sleep(random.uniform(0, 2 * PAUSE_SECONDS))
    for watcher in watchers:
        watcher.join()
    return {
        "writes": writes,
        "embedder_ms": EMBEDDER_SECONDS * 1000,
        "write_ms": harness.percentiles(written),
        "found_by_words_ms": harness.percentiles(by_words),
        "vector_is_there_ms": harness.percentiles(by_meaning),
    }


def _watch(hub: Hub, memory_id: str, since: float, found: list[float]) -> None:
    """Note when a memory's vector is there; looks every 5 ms."""
    with hub.connection() as connection:
        deadline = since + 60
        statement = "SELECT 1 FROM strength_memoryindex WHERE memory_id = %s::uuid AND vector IS NOT NULL"
        while not connection.execute(statement, [memory_id]).fetchone():
            if time.monotonic() > deadline:
                raise TimeoutError("A vector did not come within a minute.")
            time.sleep(0.005)
    found.append((time.monotonic() - since) * 1000)
