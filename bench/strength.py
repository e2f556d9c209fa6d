"""Let agents live for half a year with known useful and useless memories, and see what strength keeps of them.

    python bench/strength.py --png docs/strength.png            # with variants: 15 minutes on two free cores
    python bench/strength.py --plain                            # without them: 6 minutes
    python bench/strength.py --quick                            # seconds: whether it runs at all
    python bench/strength.py --json > figures.json

`strength_worlds.py` invents the lives: what is told, what is asked, what each task needs. Here they are lived through
the real actions, in a PostgreSQL of its own, with the `hashing` embedder and a simulated clock, with a sleep every
night. A task's result is written from those of the memories it needs that the search returned: a fifth of the answers
tell half a fact only, every tenth mentions something beside the point, a stale fact that is found is sometimes told.
What is needed and was archived is told again one to three days later, or a curator reactivates it.

Each tenth day all that was ever told and has not ended by word (`valid_to`) is judged: it is useful if a task of the
next 30 days needs it. `precision` is the share of useful ones among the active, `recall` the share of active ones among
the useful. The other policies rank the same memories by the last use (else the creation), the mean and the greatest
cosine to the queries of the last 30 days, and the number of uses. Each is one rule for all days and agents, cut where
it reaches the recall that strength has.
"""

import heapq
import itertools
import json
import multiprocessing
import random
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import mean
from typing import Any, Final

# This file has the name of an app, which must be found first.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.append(str(Path(__file__).resolve().parent))

import harness
from strength_worlds import (
    HORIZON_DAYS,
    LEVELS,
    RANKINGS,
    Ask,
    Item,
    Life,
    Shape,
    Standing,
    judge,
    live,
    pooled,
)

BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
NIGHT: Final = 3 / 24
EVERY_DAYS: Final = 10
ONE_DAY: Final = timedelta(days=1)
AT_ONCE: Final = 2
HALF_TOLD, BESIDE_THE_POINT, STALE_TOLD, CALLED_SUCCESS, TOLD_AGAIN = 0.2, 0.1, 0.15, 0.15, 0.7


@dataclass(frozen=True)
class Variant:
    """Difference of a run from the first one: another life, or another policy."""

    name: str
    agents: int = 4
    seed: int = 1
    shape: Shape = field(default_factory=Shape)
    policy: Mapping[str, Any] = field(default_factory=dict)
    sleeps: bool = True


def variants(plain: Variant) -> list[Variant]:
    """Return what the plain run is compared with: a quarter of its agents, in another life or under another policy."""
    fewer, shape = replace(plain, agents=max(1, plain.agents // 4)), plain.shape
    quicker = {"initial_strength": 0.5, "strength_increment_on_use": 0.2, "archive_threshold": 0.15}
    on_trial = {"initial_strength": 0.3, "strength_increment_on_use": 0.3}
    return [
        replace(fewer, name="never sleeps", sleeps=False),
        replace(fewer, name="half as many tasks", shape=replace(shape, tasks=0.5)),
        replace(fewer, name="new 0.5, use 0.2, archived at 0.15", policy=quicker),
        replace(fewer, name="new 0.3, use 0.3", policy=on_trial),
    ]


def moment(day: float) -> datetime:
    """Return a simulated day as a time."""
    return BEGIN + timedelta(days=day)


@dataclass
class Agent:
    """One agent on its way through its life."""

    number: int
    life: Life
    policy: Mapping[str, Any]
    memory_of: dict[int, Any] = field(default_factory=dict)
    """The memory that holds an item, the latest where it was told again."""
    awaited: set[int] = field(default_factory=set)
    """Items that were missed and will be brought back."""
    queries: list[tuple[float, Any]] = field(default_factory=list)
    evenings: dict[int, list[Standing]] = field(default_factory=dict)
    active: list[int] = field(default_factory=list)
    known: list[int] = field(default_factory=list)
    events: list[tuple[float, int, Callable[[float], None]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        from memoryhub.auth.domain import command
        from memoryhub.auth.tenancy import actor_for_writing, tenant_for_reading

        self.by, self.order = command("bench"), itertools.count()
        self.actor = actor_for_writing(self.by, f"agent-{self.number}", "user", now=BEGIN)
        self.actor.agent.policy = dict(self.policy)
        self.actor.agent.save()
        self.tenant = tenant_for_reading(self.by, f"agent-{self.number}", "user")
        for item in self.life.items:
            self._plan(item.told_at, lambda at, item=item: self.tell(item, at))
            for at in item.again_at:
                self._plan(at, lambda at, item=item: self.say_again(item, at))
        for ask in self.life.asks:
            self._plan(ask.at, lambda at, ask=ask: self.do(ask, at))

    def _plan(self, at: float, happen: Callable[[float], None]) -> None:
        heapq.heappush(self.events, (at, next(self.order), happen))

    def live_until(self, day: float) -> None:
        """Let all happen that does until then."""
        while self.events and self.events[0][0] <= day:
            at, _, happen = heapq.heappop(self.events)
            happen(at)

    def tell(self, item: Item, at: float, text: str | None = None) -> None:
        """Write an item down, and end the fact that it contradicts where that is told."""
        from strength.actions.curation import edit_memory

        if item.replaces is not None and text is None and self.life.items[item.replaces].is_ended:
            edit_memory(
                memory=self.memory_of[item.replaces], values={"valid_to": moment(at)}, expected_version=None,
                by=self.by, reason="", now=moment(at),
            )  # fmt: skip
        self.memory_of[item.key] = self._write(text or item.text, at)

    def say_again(self, item: Item, at: float) -> None:
        """Say the same text again while it holds, which strengthens the memory."""
        if at < item.ends_at and item.key not in self.awaited:
            self.memory_of[item.key] = self._write(item.text, at)

    def _write(self, text: str, at: float) -> Any:
        from strength.actions.memories import NewMemory, write_memory

        return write_memory(actor=self.actor, new=NewMemory(content=text), by=self.by, now=moment(at))[0]

    def do(self, ask: Ask, at: float) -> None:
        """Do a task: search, answer from what is found of what it needs, complete it."""
        from memoryhub.embeddings.spaces import active_space, embed_query
        from strength.actions.tasks import Completion, begin_task, complete_task
        from strength.domain.strength import Impact

        chance = random.Random(ask.seed)
        begun = begin_task(
            tenant=self.tenant, actor=self.actor, query=ask.query, perspective=None, by=self.by, now=moment(at)
        )  # fmt: skip
        self.queries.append((at, _unit(embed_query(active_space(), ask.query) or [1.0])))
        said, missing = self._answer(ask, {each.memory.pk for each in begun.found}, chance)
        success = not missing and chance.random() < CALLED_SUCCESS
        complete_task(
            task=begun.task, by=self.by, now=moment(at + 5 / 1440),
            completion=Completion(result=" ".join(said), impact=Impact.TASK_SUCCESS if success else None),
        )  # fmt: skip
        for key in missing:
            self._miss(key, at, chance)

    def _answer(self, ask: Ask, returned: set[Any], chance: random.Random) -> tuple[list[str], list[int]]:
        """Return the sentences of an answer, and the items that were needed and not found."""
        told: dict[Any, str] = {}
        missing = []

        def say(key: int) -> None:
            item = self.life.items[key]
            one, two = item.answer
            half = chance.random() < HALF_TOLD
            told[self.memory_of[key].pk] = (
                f"As to the {item.aspect}, it was done with {one}."
                if half
                else f"The {item.aspect} was taken care of: {one} {two}."
            )

        for key in ask.needs:
            is_found = self.memory_of[key].pk in returned
            if not is_found:
                missing.append(key)
            former = self.life.items[key].replaces
            has_stale = former is not None and self.memory_of[former].pk in returned
            if former is not None and has_stale and (not is_found or chance.random() < STALE_TOLD):
                say(former)
            elif is_found:
                say(key)
        key_of = {self.memory_of[key].pk: key for key in self.memory_of}
        beside = sorted(key_of[each] for each in returned - told.keys() if each in key_of)
        said = list(told.values())
        if beside and chance.random() < BESIDE_THE_POINT:
            one, two = self.life.items[chance.choice(beside)].answer
            said.append(f"By the way, there was {one} {two} too.")
        return said, missing

    def _miss(self, key: int, at: float, chance: random.Random) -> None:
        """Plan to bring an archived memory back in one to three days: told again, or reactivated."""
        from strength.models import Memory

        if Memory.objects.get(pk=self.memory_of[key].pk).status == "active" or key in self.awaited:
            return
        self.awaited.add(key)
        again = chance.random() < TOLD_AGAIN
        self._plan(at + chance.uniform(1, 3), lambda at: self._bring_back(key, again, at))

    def _bring_back(self, key: int, again: bool, at: float) -> None:
        from strength.actions.curation import apply_transition

        self.awaited.discard(key)
        item, memory = self.life.items[key], self.memory_of[key]
        if at >= item.ends_at:
            return
        if again:
            said = f"the {item.aspect} is {item.answer[0]} {item.answer[1]}, on day {at:.0f}."
            self.tell(item, at, f"{item.topic}, to say it once more: {said}")
        else:
            apply_transition(memory=memory, verb="reactivate", by=self.by, reason="missed", now=moment(at))

    def sleep(self, day: int) -> None:
        from strength.actions.sleep import SleepRequest, sleep
        from strength.domain.sleep import Trigger

        sleep(actor=self.actor, request=SleepRequest(Trigger.COMMAND, self.by, moment(day + NIGHT)))

    def look(self, day: int) -> None:
        """Note how memories stand in the morning; each tenth day, judge what is active."""
        from django.db.models import F

        from strength.models import MemoryNumbers

        names = ("pk", "strength_now", "access_count", "last_accessed_at", "memory__created_at")
        numbers = MemoryNumbers.objects.with_strength().filter(actor=self.actor).order_by("pk")
        found = numbers.values(*names, status=F("memory__status"), valid_to=F("memory__valid_to"))
        every = [{**row, "strength": row["strength_now"]} for row in found]
        rows = [row for row in every if row["valid_to"] is None or row["valid_to"] > moment(day)]
        self.active.append(sum(row["status"] == "active" for row in rows))
        self.known.append(len(rows))
        if day % EVERY_DAYS == 0 and day:
            key_of = {memory.pk: key for key, memory in self.memory_of.items()}
            self.evenings[day] = self._standings(day, [row for row in rows if row["pk"] in key_of], key_of)

    def _standings(self, day: int, rows: Sequence[Any], key_of: Mapping[Any, int]) -> list[Standing]:
        import numpy as np

        from strength.models import MemoryIndex

        needs, now = self.life.needed(day + NIGHT), moment(day + NIGHT)
        asked = [vector for at, vector in self.queries if day - HORIZON_DAYS < at <= day]
        cosines = np.zeros((len(rows), 1))
        if asked and rows:
            vectors = dict(MemoryIndex.objects.filter(actor=self.actor).values_list("memory_id", "vector"))
            cosines = np.array([_unit(vectors[row["pk"]]) for row in rows]) @ np.array(asked).T
        return [
            Standing(
                key=key_of[row["pk"]], is_active=row["status"] == "active", strength=row["strength"],
                idle_days=(now - (row["last_accessed_at"] or row["memory__created_at"])) / ONE_DAY,
                uses=row["access_count"], similarity=float(near.mean()), nearest=float(near.max()),
                needs=needs[key_of[row["pk"]]],
            )
            for row, near in zip(rows, cosines, strict=True)
        ]  # fmt: skip


def _unit(vector: Sequence[float]) -> Any:
    import numpy as np

    return np.asarray(vector, np.float32) / np.linalg.norm(vector)


def simulate(variant: Variant, number: int) -> dict[str, Any]:
    """Let one agent of a variant live; return what was seen of it. Needs Django set up."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off")
    agent = Agent(number, live(variant.shape, 1000 * variant.seed + number), variant.policy)
    for day in range(variant.shape.days):
        agent.live_until(day + NIGHT)
        if variant.sleeps:
            agent.sleep(day)
        agent.look(day)
    return {"evenings": agent.evenings, "active": agent.active, "known": agent.known}


def report(variant: Variant, lives: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of a variant: one rule for all days and agents, and counts of memories by day."""
    evenings = lives[0]["evenings"]
    days = [day for day in evenings if HORIZON_DAYS <= day <= variant.shape.days - HORIZON_DAYS] or list(
        evenings
    )
    return {
        "variant": asdict(variant),
        "pooled": pooled([life["evenings"][day] for life in lives for day in days]),
        "active": [mean(each) for each in zip(*(life["active"] for life in lives), strict=True)],
        "known": [mean(each) for each in zip(*(life["known"] for life in lives), strict=True)],
        "needed": {day: mean(judge(life["evenings"][day])["needed"] for life in lives) for day in days},
    }


def simulate_apart(job: tuple[Variant, int]) -> dict[str, Any]:
    """Simulate one agent of a variant in a process and an installation of its own."""
    with harness.installation():
        return simulate(*job)


def run(todo: Sequence[Variant], quiet: bool) -> list[dict[str, Any]]:
    """Simulate the agents of all variants, two at a time; return a report of each variant."""
    jobs = [(variant, number) for variant in todo for number in range(variant.agents)]
    # Who is interrupted ends the processes by SIGTERM, after which nothing is left of their installations.
    minds = (signal.signal, (signal.SIGINT, signal.SIG_IGN))
    with (
        harness.progress(quiet) as bar,
        multiprocessing.get_context("spawn").Pool(AT_ONCE, *minds, maxtasksperchild=1) as pool,
    ):
        lives = iter(list(bar.track(pool.imap(simulate_apart, jobs), len(jobs), description="agents' lives")))
    return [report(variant, list(itertools.islice(lives, variant.agents))) for variant in todo]


def show(done: Sequence[Mapping[str, Any]], console: Any) -> None:
    names = ["active", "recall", *(f"precision, {name}" for name in RANKINGS), "precision, random"]
    rows = [{"": each["variant"]["name"], **{name: each["pooled"][name] for name in names}} for each in done]
    harness.table(console, rows, "precision at the recall of what is active")


RED: Final = "#c0392b"
LINES: Final = {
    "strength": RED,
    "recency": "#2c7fb8",
    "access count": "#41ab5d",
    "nearest query": "#b58bd0",
    "similarity": "#e6a23c",
}


def draw(plain: Mapping[str, Any], path: Path) -> None:
    """Draw how many memories are active, and how each policy tells useful from useless."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
    days, needed = range(len(plain["active"])), plain["needed"]
    left.fill_between(days, plain["known"], color="#e0e0e0", label="active if nobody slept")
    left.fill_between(days, plain["active"], color="#e8b0aa", label="active with a sleep every night")
    left.plot(
        list(needed), list(needed.values()), "o-", color="#222222", label=f"needed in {HORIZON_DAYS:.0f} days"
    )
    left.set(xlabel="day", ylim=(0, None), title="Memories of an agent")
    figures = plain["pooled"]
    for name, color in LINES.items():
        right.plot(
            LEVELS, [figures[f"at {level:.1f}, {name}"] for level in LEVELS], color=color, label=f"by {name}"
        )
    right.axhline(figures["precision, random"], color="#999999", label="by random")
    right.plot([figures["recall"]], [figures["precision"]], "o", color=RED, label="what is active")
    right.set(xlabel="recall", ylabel="precision", ylim=(0, 1), title="One rule for all days")
    for axes in (left, right):
        axes.legend()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = harness.parser_of(__doc__)
    parser.add_argument("--days", type=harness.positive, default=180, help="how long they live (180)")
    parser.add_argument("--agents", type=harness.positive, default=4, help="how many agents (4)")
    parser.add_argument("--seed", type=harness.positive, default=1, help="what their lives are made from (1)")
    parser.add_argument("--plain", action="store_true", help="without the variants")
    parser.add_argument("--quick", action="store_true", help="one agent, twelve days: whether it runs at all")
    parser.add_argument(
        "--policy", type=json.loads, default={}, help='another policy, as {"archive_threshold": 0.2}'
    )
    parser.add_argument("--png", type=Path, help="draw the figures into this file")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.days, arguments.agents, arguments.plain = 12, 1, True
    shape = Shape(days=arguments.days)
    plain = Variant("plain", arguments.agents, arguments.seed, shape, policy=arguments.policy)
    for number in harness.ENDED_BY:
        signal.signal(number, _end)
    done = run([plain, *([] if arguments.plain else variants(plain))], quiet=arguments.json)
    if arguments.png:
        draw(done[0], arguments.png)
    harness.tell(done, arguments, show)


def _end(number: int, frame: Any) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    main()
