"""Let agents live for half a year with known useful and useless memories, and see what strength keeps of them.

    python bench/lives.py                                    # the defaults, four lives: 6 minutes on two free cores
    python bench/lives.py --days 12 --agents 1               # seconds: whether it runs at all
    python bench/lives.py --awake --agents 1                 # nobody sleeps
    python bench/lives.py --tasks 0.5 --agents 1             # half as many tasks
    python bench/lives.py --policy '{"initial_strength": 0.3, "strength_increment_on_use": 0.3}'

A life is a script made from a seed before anything is remembered: what is told when, which tasks come, and which
memories each needs. So every policy meets the same life. Words are invented. A remark about a topic has the very words
that tasks about it ask for, is as fresh and as specific as a fact when it is told, and is sometimes asked for once.

Lives are lived through the real actions, each in a PostgreSQL of its own, with the `hashing` embedder, a simulated
clock and a sleep every night. A task's result is written from those of the memories it needs that the search returned,
a fifth of them in part only; every tenth answer mentions something beside the point. What is needed and was archived
is told again one to three days later.

Every tenth day all that was told and has not ended is judged: it is useful if a task of the next 30 days needs it.
`precision` is the share of useful ones among the active, `recall` the share of active ones among the useful. The other
policies rank the same memories by the last use, the number of uses, and the mean cosine to the queries of the last 30
days; each is one rule for all days and agents, cut where it reaches the recall that strength has.
"""

import argparse
import heapq
import itertools
import json
import math
import multiprocessing
import random
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import harness

BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
NIGHT: Final = 3 / 24
EVERY_DAYS: Final = 10
HORIZON_DAYS: Final = 30
AT_ONCE: Final = 2
USELESS_A_DAY: Final = 4
DAYS_UNTIL_CHANGE: Final = 120
HALF_TOLD, BESIDE_THE_POINT, CALLED_SUCCESS = 0.2, 0.1, 0.15

SYLLABLES: Final = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "el")]
PEOPLE: Final = ("Maya", "Ken", "Yuno", "Hiroki", "Kana", "Ana", "Ben", "Olga")
FACTS: Final = (
    "The {aspect} of {topic} is {one} {two}.",
    "{who} set the {aspect} of {topic} to {one} {two}.",
)
REMARKS: Final = (
    "{who} found the {aspect} of {topic} lovely today, because of {one} {two}.",
    "{topic} and its {aspect} came up at lunch, somebody said {one} {two}.",
)
CHATTER: Final = ("{who} had coffee with {one} and thought {two} was funny.",)
QUERIES: Final = (
    "What do we know about the {aspects} of {topic}?",
    "Prepare {topic} for {who} and mind the {aspects}.",
)


class Rhythm(NamedTuple):
    """How many topics of a sort there are, the facts of each, how many a task needs at most, and how often it comes."""

    topics: int
    facts: int
    needs: int
    every_days: float
    lasts_days: tuple[float, float] | None = None
    """Where the topics come one after the other, a month apart, and end."""


RHYTHMS: Final = {
    "daily": Rhythm(topics=3, facts=6, needs=3, every_days=0.8),
    "weekly": Rhythm(topics=6, facts=4, needs=4, every_days=7),
    "monthly": Rhythm(topics=4, facts=3, needs=3, every_days=30),
    "project": Rhythm(topics=6, facts=6, needs=3, every_days=0.5, lasts_days=(21, 42)),
}


@dataclass(eq=False)
class Item:
    """Something that is told once: a fact, until another one contradicts it, or a remark."""

    sort: str
    """The rhythm of the topic, or `remark` or `chatter`."""
    told_at: float
    text: str
    topic: str
    aspect: str
    answer: str
    replaces: "Item | None" = None
    ends_at: float = math.inf
    is_ended: bool = False
    """Whether its end is told, so that the memory ends too; else the stale fact stays among the others."""


class Ask(NamedTuple):
    """A task, and the items that hold its answer."""

    at: float
    query: str
    needs: tuple[Item, ...]


class Script:
    """All that will happen to an agent; the same for the same seed, days, and share of the tasks."""

    def __init__(self, seed: int, *, days: int = 180, tasks: float = 1.0) -> None:
        self.chance, self.days, self.tasks = random.Random(f"life {seed}"), days, tasks
        triples = self.chance.sample(range(len(SYLLABLES) ** 3), 20_000)
        self.words = (
            "".join(SYLLABLES[n // len(SYLLABLES) ** at % len(SYLLABLES)] for at in range(3)) for n in triples
        )
        self.items: list[Item] = []
        self.asks: list[Ask] = []
        topics = [self._topic(sort, number) for sort in RHYTHMS for number in range(RHYTHMS[sort].topics)]
        for day in range(days):
            self._useless(day, [topic[:2] for topic in topics if topic[2] <= day < topic[3]])

    def needed(self, day: float) -> set[Item]:
        """Return what is known by then and needed within the horizon."""
        asks = [ask for ask in self.asks if day < ask.at <= day + HORIZON_DAYS]
        return {item for ask in asks for item in ask.needs if item.told_at <= day}

    def _topic(self, sort: str, number: int) -> tuple[str, list[str], float, float]:
        """Write a topic's facts and tasks; return its name, its aspects, and when it begins and ends."""
        rhythm, begins, ends = RHYTHMS[sort], 0.0, float(self.days)
        if rhythm.lasts_days:
            begins = 30.0 * number + 1
            ends = min(ends, begins + self.chance.uniform(*rhythm.lasts_days))
        name, aspects = next(self.words).title(), [next(self.words) for _ in range(rhythm.facts + 2)]
        histories = [list(self._facts(sort, name, each, begins, ends)) for each in aspects[: rhythm.facts]]
        at = begins + self.chance.uniform(0, rhythm.every_days)
        while at < ends:
            known = [[fact for fact in facts if fact.told_at < at][-1:] for facts in histories]
            latest = [fact for facts in known for fact in facts]
            self._ask(at, self.chance.sample(latest, min(len(latest), self.chance.randint(1, rhythm.needs))))
            at += rhythm.every_days * self.chance.uniform(0.8, 1.2)
        return name, aspects, begins, ends

    def _facts(self, sort: str, topic: str, aspect: str, begins: float, ends: float) -> Iterator[Item]:
        """Yield what is true of an aspect of a topic, and what contradicts it later."""
        at, last = begins + self.chance.uniform(0, 25), None
        while at < ends:
            fact = self._tell(sort, FACTS, at, topic, aspect)
            if last:
                last.ends_at, last.is_ended, fact.replaces = at, self.chance.random() < 0.5, last
            yield fact
            last, at = fact, at + 1 + self.chance.expovariate(1 / DAYS_UNTIL_CHANGE)

    def _tell(self, sort: str, frames: Sequence[str], at: float, topic: str = "", aspect: str = "") -> Item:
        one, two, who = next(self.words), next(self.words), self.chance.choice(PEOPLE)
        text = self.chance.choice(frames).format(topic=topic, aspect=aspect, one=one, two=two, who=who)
        self.items.append(Item(sort, at, text, topic, aspect, f"{one} {two}"))
        return self.items[-1]

    def _ask(self, at: float, needs: Sequence[Item], extra: str = "") -> None:
        frame, who = self.chance.choice(QUERIES), self.chance.choice(PEOPLE)
        if self.chance.random() < self.tasks and needs:
            aspects = " and the ".join(item.aspect for item in needs) + extra
            query = frame.format(topic=needs[0].topic, aspects=aspects, who=who)
            self.asks.append(Ask(at, query, tuple(needs)))

    def _useless(self, day: int, going_on: Sequence[tuple[str, list[str]]]) -> None:
        """Tell remarks about what is going on, and chatter about nothing; some remarks are asked for, once."""
        for _ in range(USELESS_A_DAY):
            at = day + self.chance.random()
            if self.chance.random() < 0.4:
                self._tell("chatter", CHATTER, at)
                continue
            topic, aspects = self.chance.choice(going_on)
            remark = self._tell("remark", REMARKS, at, topic, self.chance.choice(aspects))
            if self.chance.random() < 0.25:
                extra = f" with {remark.answer.split()[0]}"
                self._ask(at + 1 + self.chance.expovariate(1 / 5), [remark], extra)


class Standing(NamedTuple):
    """A memory on one evening: what each policy knows of it, and whether it will be needed."""

    is_active: bool
    strength: float
    idle_days: float
    """Since the last use, else since the creation."""
    uses: int
    similarity: float
    """Mean cosine to the queries of the last 30 days."""
    is_needed: bool


class Agent:
    """One agent on its way through its life."""

    def __init__(self, script: Script, policy: Mapping[str, Any]) -> None:
        from memoryhub.auth.domain import command
        from memoryhub.auth.tenancy import actor_for_writing, tenant_for_reading

        self.script, self.by, self.chance, self.order = (
            script,
            command("bench"),
            random.Random(1),
            itertools.count(),
        )
        self.actor = actor_for_writing(self.by, "agent", "user", now=BEGIN)
        self.actor.agent.policy = dict(policy)
        self.actor.agent.save()
        self.tenant = tenant_for_reading(self.by, "agent", "user")
        self.memory_of: dict[Item, Any] = {}  # the latest where it was told again
        self.queries: list[tuple[float, Any]] = []
        self.events: list[tuple[float, int, Callable[[Any, float], None], Any]] = []
        for item in script.items:
            self._plan(item.told_at, self.tell, item)
        for ask in script.asks:
            self._plan(ask.at, self.do, ask)

    def _plan(self, at: float, happen: Callable[[Any, float], None], what: Any) -> None:
        heapq.heappush(self.events, (at, next(self.order), happen, what))

    def live_until(self, day: float) -> None:
        while self.events and self.events[0][0] <= day:
            at, _, happen, what = heapq.heappop(self.events)
            happen(what, at)

    def tell(self, item: Item, at: float) -> None:
        """Write an item down, end the fact that it contradicts where that is told, or say it once more."""
        from strength.actions.curation import edit_memory
        from strength.actions.memories import NewMemory, write_memory

        text, now = item.text, moment(at)
        if item in self.memory_of:
            text = f"{item.topic}, to say it once more: the {item.aspect} is {item.answer}, on day {at:.0f}."
        elif item.replaces and item.replaces.is_ended:
            ended = self.memory_of[item.replaces]
            edit_memory(
                memory=ended, values={"valid_to": now}, expected_version=None, by=self.by, reason="", now=now
            )  # fmt: skip
        if at < item.ends_at:
            new = NewMemory(content=text)
            self.memory_of[item], _ = write_memory(actor=self.actor, new=new, by=self.by, now=now)

    def do(self, ask: Ask, at: float) -> None:
        """Do a task: search, answer from what is found of what it needs, complete it."""
        from memoryhub.embeddings.spaces import active_space, embed_query
        from strength.actions.tasks import Completion, begin_task, complete_task
        from strength.domain.strength import Impact
        from strength.models import Memory

        begun = begin_task(
            tenant=self.tenant, actor=self.actor, query=ask.query, perspective=None, by=self.by, now=moment(at)
        )  # fmt: skip
        self.queries.append((at, unit(embed_query(active_space(), ask.query))))
        returned = {each.memory.pk for each in begun.found}
        missing = [item for item in ask.needs if self.memory_of[item].pk not in returned]
        success = not missing and self.chance.random() < CALLED_SUCCESS
        result = " ".join(self._answer(ask.needs, returned))
        completion = Completion(result=result, impact=Impact.TASK_SUCCESS if success else None)
        complete_task(task=begun.task, by=self.by, now=moment(at + 5 / 1440), completion=completion)
        for item in missing:
            if Memory.objects.get(pk=self.memory_of[item].pk).status != "active":
                self._plan(at + self.chance.uniform(1, 3), self.tell, item)

    def _answer(self, needs: Sequence[Item], returned: set[Any]) -> Iterator[str]:
        """Yield a sentence of each needed item that was found, and now and then one beside the point."""
        found = [item for item, memory in self.memory_of.items() if memory.pk in returned]
        for item in found:
            if item in needs and self.chance.random() < HALF_TOLD:
                yield f"As to the {item.aspect}, it was done with {item.answer.split()[0]}."
            elif item in needs:
                yield f"The {item.aspect} was taken care of: {item.answer}."
        beside = [item for item in found if item not in needs]
        if beside and self.chance.random() < BESIDE_THE_POINT:
            yield f"By the way, there was {self.chance.choice(beside).answer} too."

    def sleep(self, day: int) -> None:
        from strength.actions.sleep import SleepRequest, sleep
        from strength.domain.sleep import Trigger

        sleep(actor=self.actor, request=SleepRequest(Trigger.COMMAND, self.by, moment(day + NIGHT)))

    def standings(self, day: int) -> list[Standing]:
        """Return how all that was told and has not ended stands in the morning."""
        import numpy as np
        from django.db.models import Q

        from strength.models import MemoryIndex, MemoryNumbers

        item_of, now = {memory.pk: item for item, memory in self.memory_of.items()}, moment(day + NIGHT)
        holds = Q(memory__valid_to=None) | Q(memory__valid_to__gt=now)
        rows = MemoryNumbers.objects.with_strength().filter(holds, actor=self.actor, pk__in=item_of)
        needed = self.script.needed(day + NIGHT)
        asked = [vector for at, vector in self.queries if at > day - HORIZON_DAYS]
        vectors = dict(MemoryIndex.objects.filter(actor=self.actor).values_list("memory_id", "vector"))
        return [
            Standing(
                is_active=row.memory.status == "active", strength=row.strength_now,
                idle_days=(now - (row.last_accessed_at or row.memory.created_at)) / timedelta(days=1),
                uses=row.access_count, is_needed=item_of[row.pk] in needed,
                similarity=float(np.mean(np.array(asked) @ unit(vectors[row.pk]))) if asked else 0.0,
            )
            for row in rows.select_related("memory").order_by("pk")
        ]  # fmt: skip


def moment(day: float) -> datetime:
    return BEGIN + timedelta(days=day)


def unit(vector: Any) -> Any:
    import numpy as np

    return np.asarray(vector, np.float32) / np.linalg.norm(vector)


def simulate(job: tuple[argparse.Namespace, int]) -> list[list[Standing]]:
    """Let one agent live in a process and an installation of its own; return the evenings that are judged."""
    from django.db import connection

    (given, number), evenings = job, []
    harness.say(f"agent {number + 1} of {given.agents}")
    margin = HORIZON_DAYS if given.days > 2 * HORIZON_DAYS else 1
    with harness.installation():
        connection.cursor().execute("SET synchronous_commit = off")
        agent = Agent(Script(number, days=given.days, tasks=given.tasks), given.policy)
        for day in range(given.days):
            agent.live_until(day + NIGHT)
            if not given.awake:
                agent.sleep(day)
            if day % EVERY_DAYS == 0 and margin <= day <= given.days - margin:
                evenings.append(agent.standings(day))
    return evenings


RANKINGS: Final[Mapping[str, Callable[[Standing], tuple[float, ...]]]] = {
    "strength": lambda each: (each.is_active, each.strength),
    "recency": lambda each: (-each.idle_days,),
    "uses": lambda each: (each.uses, -each.idle_days),
    "similarity": lambda each: (each.similarity,),
}


def judge(evenings: Sequence[Sequence[Standing]]) -> dict[str, float]:
    """Return how good what is active is, and the precision of each policy, as one rule, at the same recall."""
    population = [each for evening in evenings for each in evening]
    active = [each for each in population if each.is_active]
    needed, hits = (sum(each.is_needed for each in some) for some in (population, active))
    figures = {
        "active": len(active) / max(1, len(evenings)),
        "recall": hits / max(1, needed),
        "precision": hits / max(1, len(active)),
    }
    for name, ranking in RANKINGS.items():
        order = sorted(population, key=ranking, reverse=True)
        found = itertools.accumulate(each.is_needed for each in order)
        place = next((place for place, count in enumerate(found, 1) if count >= hits), 1)
        figures[f"by {name}"] = hits / place
    return figures | {"by random": needed / max(1, len(population))}


def main() -> None:
    parser = harness.parser_of(__doc__)
    parser.add_argument("--days", type=harness.positive, default=180, help="how long they live (180)")
    parser.add_argument("--agents", type=harness.positive, default=4, help="how many agents (4)")
    parser.add_argument("--tasks", type=float, default=1.0, help="the share of the tasks that come (1.0)")
    parser.add_argument("--awake", action="store_true", help="without a sleep every night")
    parser.add_argument("--policy", type=json.loads, default={}, help="values of the agents' policy, as JSON")
    given = parser.parse_args()
    # Whoever interrupts this ends the processes by SIGTERM, after which nothing is left of their installations.
    with (
        harness.signals_end_it(),
        multiprocessing.get_context("spawn").Pool(
            AT_ONCE, signal.signal, (signal.SIGINT, signal.SIG_IGN), maxtasksperchild=1
        ) as pool,
    ):
        jobs = [(given, number) for number in range(given.agents)]
        lives = pool.map(simulate, jobs, chunksize=1)
    harness.tell([judge([evening for life in lives for evening in life])], given)


if __name__ == "__main__":
    main()
