"""What others do changes nothing that a key reads: twelve ways to learn of another tenant.

1 scores of searches, 2 counts, 3 orders of lists, 4 cursors of pages, 5 ids, 6 numbers in the feed of changes, 7 ETags,
8 headers of limits, 9 errors of unknown and taken ids (`test_foreign_ids`), 10 usage and caps, 11 the schema: all are in
the answers to every call that reads, which are compared before and after others wrote. 12 times of answers: no cache is
shared (`test_caches`), and work by turns (`test_turns`); the rest is measured (`bench/shares.py`).
"""

import re
from typing import Any

import pytest
from django.db import transaction
from rest_framework.test import APIClient

from memoryhub.auth.throttling import KeyRateThrottle
from tests.conftest import client_with_key
from tests.factories.planting import Planted, plant
from tests.integration.test_foreign_ids import TIMES, UNCOMPARED_HEADERS, UUIDS, differing, in_order
from tests.integration.test_tenants import CALLS, call

pytestmark = pytest.mark.usefixtures("llm")

VARYING = re.compile(TIMES + r"|(?<=remembered-)\w+|(?<=total_tokens\":)\d+")
DECIMALS = re.compile(r"\d+\.\d{4,}")
"""Scores are compared to three digits: strengths decay between two calls."""

READS = {"memories-search", "memories-retrieve", "memories-candidates", "context", "anthropic-count-tokens", "tasks"}
"""Posts that answer from what is stored. Those that ask a model count in the ledger, whatever becomes of them."""

KEYS: dict[str, tuple[dict[str, Any], tuple[str, str]]] = {
    "another agent's": ({"agent_ids": ["other"]}, ("kana", "hiroki")),
    "another user's of the agent": ({"agent_ids": ["other"], "user_id": "mallory"}, ("other", "hiroki")),
}
"""A key of mallory's, and who writes meanwhile."""


@pytest.fixture(autouse=True)
def unthrottled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeyRateThrottle, "rate", "1000000/min", raising=False)


def answers(client: APIClient, own: Planted) -> dict[str, str]:
    """Return what every call that reads answers; the database is left as it was."""
    said = {}
    for route, method in CALLS:
        if method == "get" or (method == "post" and route.name in READS):
            with transaction.atomic():
                answer = call(client, route, method, own)
                body = in_order(answer.getvalue().decode())
                transaction.set_rollback(True)
            headers = sorted((name, text) for name, text in answer.headers.items() if name not in UNCOMPARED_HEADERS)
            text = VARYING.sub("…", f"{answer.status_code} {headers} {body}")
            said[f"{method} {route.name}"] = DECIMALS.sub(lambda number: f"{float(number[0]):.3f}", text)
    return said


def settled(said: dict[str, str], ids: set[str]) -> dict[str, str]:
    """Return answers in which other ids, of rows that a call itself makes, are one word."""
    return {name: UUIDS.sub(lambda found: found[0] if found[0] in ids else "new", text) for name, text in said.items()}


@pytest.mark.parametrize("name", KEYS)
def test_what_others_write_changes_nothing_that_a_key_reads(client: APIClient, name: str) -> None:
    options, (agent_id, user_id) = KEYS[name]
    own = plant(client, agent_id="other", user_id="mallory")
    key = client_with_key(**options)
    first, second = answers(key, own), answers(key, own)
    ids = {*UUIDS.findall(str(first))} & {*UUIDS.findall(str(second))}
    before = settled(first, ids)
    assert before == settled(second, ids), "the control: nothing changes by itself"
    plant(client, agent_id=agent_id, user_id=user_id)
    after = settled(answers(key, own), ids)
    assert len(before) >= 50
    changed = [f"{each}\n{differing(text, before[each])}" for each, text in after.items() if text != before[each]]
    assert not changed, "\n".join(changed)
