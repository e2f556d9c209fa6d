#!/usr/bin/env python
"""Measure what memory adds to the first byte of a vendor's streamed answer (OpenAI's form).

.venv/bin/python bench/first_byte.py                    1,000 memories, 200 questions
.venv/bin/python bench/first_byte.py --memories 5000 --json

A client asks the same questions of a scripted vendor and of memoryhub in front of it, by turns; conversations have
up to ten questions, the client shows all of one each time. The installation is a throw-away one.
"""

import json
import os
import random
import sys
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import harness
from bench.load import text_by

AGENT: Final = "bench"
USER: Final = "mika"
QUESTIONS: Final = 10
"""Of one conversation."""
BATCH: Final = 500
WARM: Final = 20


class Chat:
    """A client of an OpenAI-compatible server over one connection; `first_byte` asks the next question."""

    def __init__(self, port: int, path: str, model: str, key: str) -> None:
        self.connection = HTTPConnection("127.0.0.1", port, timeout=60)
        self.path, self.model, self.key = path, model, key
        self.messages: list[dict[str, str]] = []

    def first_byte(self, question: str) -> float:
        """Return the milliseconds until the first byte of the answer's text."""
        if len(self.messages) >= 2 * QUESTIONS:
            self.messages = []
        self.messages.append({"role": "user", "content": question})
        body = {"model": self.model, "stream": True, "messages": self.messages, "user": USER}
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        began, took, said = time.perf_counter(), 0.0, []
        self.connection.request("POST", self.path, json.dumps(body), headers)
        answer = self.connection.getresponse()
        while line := answer.readline():
            if not line.startswith(b"data: {"):
                continue
            choices = json.loads(line[6:]).get("choices")
            if text := choices and choices[0]["delta"].get("content"):
                took = took or time.perf_counter() - began
                said.append(text)
        if not said:
            raise SystemExit(f"{self.path} answered {answer.status} without a text.")
        self.messages.append({"role": "assistant", "content": "".join(said)})
        return 1000 * took


def measure(memories: int, questions: int) -> dict[str, Any]:
    from tests.fakes.llm_server import LLMServer, Reply

    with LLMServer() as vendor:
        vendor.answer(Reply("Green tea, as you like it, with a little honey."))
        os.environ |= {
            "MEMORYHUB_LLM_PROVIDER": "openai", "MEMORYHUB_LLM_MODEL": "model", "MEMORYHUB_LLM_API_KEY": "test-key",
            "MEMORYHUB_LLM_BASE_URL": vendor.base_url,
        }  # fmt: skip
        key, chosen = harness.everything_key(), random.Random(5)
        with harness.web_server() as port:
            client = harness.Client(port, key)
            for start in range(0, memories, BATCH):
                rows = [{"content": text_by(chosen)} for _ in range(min(BATCH, memories - start))]
                client.answer("POST", "memories/batch", {"agent_id": AGENT, "user_id": USER, "memories": rows})
            direct = Chat(urlsplit(vendor.base_url).port or 0, "/v1/chat/completions", "model", vendor.key)
            through = Chat(port, "/api/v1/openai/chat/completions", AGENT, key)
            pairs = []
            for _ in range(WARM + questions):
                question = text_by(chosen, 12)
                pairs.append((direct.first_byte(question), through.first_byte(question)))
    pairs = pairs[WARM:]
    return {
        "the vendor alone, ms": harness.percentiles([alone for alone, _ in pairs]),
        "with memory, ms": harness.percentiles([behind for _, behind in pairs]),
        "added, ms": harness.percentiles([behind - alone for alone, behind in pairs]),
    }


def main() -> None:
    parser = harness.parser_of(__doc__)
    parser.add_argument("--memories", type=harness.positive, default=1_000)
    parser.add_argument("--questions", type=harness.positive, default=200)
    arguments = parser.parse_args()
    with harness.installation():
        harness.tell(measure(arguments.memories, arguments.questions), arguments)


if __name__ == "__main__":
    main()
