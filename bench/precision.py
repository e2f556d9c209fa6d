#!/usr/bin/env python
"""Measure precision and recall on PrecisionMemBench (github.com/tenurehq/precisionMemBench, the folder `fixtures`).

.venv/bin/python bench/precision.py FOLDER                 beliefs.seed.json and retrieval.cases.json
.venv/bin/python bench/precision.py FOLDER --failures      also which memories were missing or too many

35 memories of two people, 77 queries with all memories that are wanted, often none. The texts are those that its
adapters send to every system, the scope is a namespace, and pinned memories are left out as there. Superseded and
resolved memories have ended, as a curator or a contradiction would end them; `--keep-ended` keeps them.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from typing import Any, Final
from uuid import UUID

sys.path.insert(0, str(Path(__file__).resolve().parent))

import harness
import retrieval

RELEVANCE: Final = 0.3
LIMIT: Final = 20
"""Most results of a query, as the benchmark's own default."""

PARTS: Final = ("canonical_name", "aliases", "content", "why_it_matters")


@dataclass(frozen=True)
class Case:
    """A query, the memories that are wanted, and those that were found."""

    query: str
    wanted: frozenset[str]
    found: frozenset[str]

    @property
    def precision(self) -> float | None:
        """None where nothing is wanted and nothing was found, as the benchmark counts."""
        if not self.found:
            return 0.0 if self.wanted else None
        return len(self.found & self.wanted) / len(self.found)

    @property
    def recall(self) -> float | None:
        return len(self.found & self.wanted) / len(self.wanted) if self.wanted else None


def text_of(belief: Mapping[str, Any]) -> str:
    values = (belief[part] for part in PARTS)
    return " ".join(" ".join(value) if isinstance(value, list) else value for value in values if value)


def namespace_of(scope: Sequence[str]) -> str:
    return f"/{scope[0].split(':')[1]}/"


def store(beliefs: Sequence[Mapping[str, Any]]) -> dict[UUID, str]:
    """Write the memories of each user; return their names in the benchmark by id."""
    from memoryhub.auth.access import actor_for_writing
    from strength.actions.drafts import NewMemory
    from strength.actions.write_many import write_memories

    names, now, by = {}, datetime.now(UTC), retrieval._principal()
    for user in sorted({each["user_id"] for each in beliefs}):
        own = [each for each in beliefs if each["user_id"] == user]
        news = [
            NewMemory(content=text_of(each), namespace=namespace_of(each["scope"]), pinned=each["pinned"])
            for each in own
        ]
        actor = actor_for_writing(by, retrieval.AGENT, user, now=now)
        items = write_memories(actor=actor, news=news, by=by, now=now)
        names |= {item.memory.pk: each["_id"] for item, each in zip(items, own, strict=True) if item.memory}
    if len(names) != len(beliefs):
        raise SystemExit(f"{len(beliefs) - len(names)} memories were refused")
    return names


def asked(cases: Sequence[Mapping[str, Any]], names: Mapping[UUID, str], *, informative: bool) -> Iterator[Case]:
    from memoryhub.auth.access import tenant_for_reading
    from memoryhub.embeddings.spaces import text_query
    from strength.actions.filters import MemorySelection
    from strength.actions.search import MemorySearch, search_memories

    by = retrieval._principal()
    for case in cases:
        wanted = frozenset(case["expect"].get("relevantBeliefs", {}).get("shouldOnlyInclude", []))
        most, found = case.get("budget", {}).get("maxBeliefs", LIMIT), frozenset[str]()
        if case["query"].strip() and most:
            search = MemorySearch(
                query=text_query(case["query"]), limit=most, relevance_floor=RELEVANCE, respells=True,
                excludes_pinned=True, only_informative=informative,
                filters=MemorySelection(namespace=namespace_of(case["scope"])),
            )  # fmt: skip
            tenant = tenant_for_reading(by, retrieval.AGENT, case.get("userId", "test-user"))
            results = search_memories(tenant=tenant, search=search, by=by, mark=False, now=datetime.now(UTC))
            found = frozenset(names[each.memory.pk] for each in results.found)
        yield Case(case["query"], wanted, found)


def report(cases: Sequence[Case], *, failures: bool) -> Iterator[str]:
    precision = mean(each.precision for each in cases if each.precision is not None)
    recall = mean(each.recall for each in cases if each.recall is not None)
    exact = sum(each.found == each.wanted for each in cases)
    yield f"precision {precision:.3f}, recall {recall:.3f}, {exact} of {len(cases)} exactly as wanted"
    for each in cases if failures else ():
        if each.found != each.wanted:
            missing, more = sorted(each.wanted - each.found), sorted(each.found - each.wanted)
            yield f"  {each.query[:60]}: missing {missing}, too many {more}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--failures", action="store_true", help="print the cases that differ")
    parser.add_argument("--keep-ended", action="store_true", help="keep superseded and resolved memories")
    options = parser.parse_args()
    beliefs = json.loads((options.folder / "beliefs.seed.json").read_text(encoding="utf-8"))
    cases = json.loads((options.folder / "retrieval.cases.json").read_text(encoding="utf-8"))
    if not options.keep_ended:
        beliefs = [
            each
            for each in beliefs
            if each["epistemic_status"] != "superseded" and not each["superseded_by"] and not each["resolved_at"]
        ]
    with harness.installation():
        names = store(beliefs)
        for informative in (False, True):
            print(f"relevance of {RELEVANCE} or more{', informative ones only' * informative}:")
            for line in report(list(asked(cases, names, informative=informative)), failures=options.failures):
                print(line)


if __name__ == "__main__":
    main()
