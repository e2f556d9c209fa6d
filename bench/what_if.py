#!/usr/bin/env python
"""Measure what a what-if, and a check of expectations, take: both assemble stored contexts again.

.venv/bin/python bench/what_if.py                    5,000 memories, 40 contexts, 20 what-ifs, 200 expectations
.venv/bin/python bench/what_if.py --memories 500 --json

Each what-if is of another memory that a context holds. The expectations are about 200 contexts. The installation is a
throw-away one.
"""

import random
import sys
import time
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import harness
from bench.load import text_by

NAMES: Final = {"agent_id": "bench", "user_id": "mika"}
BATCH: Final = 500
WHAT_IFS: Final = 20


def measure(memories: int, expectations: int) -> dict[str, Any]:
    key, chosen = harness.everything_key(), random.Random(7)
    with harness.web_server() as port:
        client = harness.Client(port, key)
        for start in range(0, memories, BATCH):
            rows = [{"content": text_by(chosen)} for _ in range(min(BATCH, memories - start))]
            client.answer("POST", "memories/batch", {**NAMES, "memories": rows})
        held = []
        for _ in range(expectations):
            context = client.answer("POST", "context", {**NAMES, "message": text_by(chosen, 12)})
            receipt = client.answer("GET", f"receipts/{context['receipt_id']}")
            ids = [each["source_id"] for each in receipt["items"] if each["layer"] == "semantic" and each["included"]]
            held += [(receipt["id"], memory_id) for memory_id in ids[:1]]
        effects = []
        for _receipt_id, memory_id in held[-WHAT_IFS:]:
            began = time.perf_counter()
            effect = client.answer("POST", f"memories/{memory_id}/what-if", {"verb": "archive"})
            effects.append(1000 * (time.perf_counter() - began))
        for receipt_id, memory_id in held:
            client.answer("POST", "expectations", {"receipt_id": receipt_id, "memory_id": memory_id})
        began = time.perf_counter()
        checked = client.answer("POST", "expectations/check", NAMES)
        seconds = time.perf_counter() - began
    return {
        f"what-if of {effect['contexts']} contexts, ms": harness.percentiles(effects),
        f"check of {checked['kept'] + len(checked['broken'])} expectations, ms": {"once": round(1000 * seconds)},
    }


def main() -> None:
    parser = harness.parser_of(__doc__)
    parser.add_argument("--memories", type=harness.positive, default=5_000)
    parser.add_argument("--expectations", type=harness.positive, default=200)
    arguments = parser.parse_args()
    with harness.installation():
        harness.tell(measure(arguments.memories, arguments.expectations), arguments)


if __name__ == "__main__":
    main()
