"""Let agents live for half a year with known useful and useless memories, and see what strength keeps of them.

    python bench/strength.py --png docs/strength.png            # with variants: 15 minutes on two free cores
    python bench/strength.py --plain                            # without them: 6 minutes
    python bench/strength.py --quick                            # seconds: whether it runs at all
    python bench/strength.py --json > figures.json

`strength_worlds.py` invents the lives: what is told, what is asked, what each task needs. Here they are lived through
the real actions, in a PostgreSQL of its own, with the `hashing` embedder and a simulated clock: `write_memory`,
`begin_task` and `complete_task`, `sleep` at three every night, `edit_memory` where an end is told. A task's result is
written from those of the memories it needs that the search returned, so that what is strengthened is what detection by
keywords finds: a fifth of the answers tell half a fact only, every tenth mentions something beside the point, and
where a stale fact is found as well it is sometimes the one that is told. Every seventh task that found all it needs is
called a success. What is needed and was archived is a miss; one to three days later somebody tells it again in other
words (seven of ten times), or a curator reactivates it.

Each tenth day, from the 30th to the 150th, all that was ever told and has not ended by word (`valid_to`) is judged:
it is useful if a task of the next 30 days needs it. `precision` is the share of useful ones among the active, `recall`
the share of active ones among the useful, `needs met` the same with each weighed by how often it is needed.

The other policies rank the same memories by the last use (else the creation), the creation alone, the mean and the
greatest cosine to the queries of the last 30 days, and the number of uses. Each is one rule for all days and agents,
cut where it reaches the recall that strength has.
"""

import argparse
import heapq
import itertools
import json
import multiprocessing
import random
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    """What is otherwise in a run: the life, or the policy that it is lived under."""

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
        replace(fewer, name="half as many useless", shape=replace(shape, useless=shape.useless / 2)),
        replace(fewer, name="twice as many useless", shape=replace(shape, useless=shape.useless * 2)),
        replace(fewer, name="decay_clock=task", policy={"decay_clock": "task"}),
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
    counts: Counter[str] = field(default_factory=Counter)
    memory_of: dict[int, Any] = field(default_factory=dict)
    """The memory that holds an item, the latest where it was told again."""
    replaced: set[Any] = field(default_factory=set)
    awaited: set[int] = field(default_factory=set)
    """Items that were missed and will be brought back."""
    queries: list[tuple[float, Any]] = field(default_factory=list)
    vectors: dict[Any, Any] = field(default_factory=dict)
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
            former = self.memory_of[item.key]
            memory = self._write(item.text, at)
            self._stands_in(item, former, memory)

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
            tenant=self.tenant,
            actor=self.actor,
            query=ask.query,
            perspective=None,
            by=self.by,
            now=moment(at),
        )
        self.queries.append((at, _unit(embed_query(active_space(), ask.query) or [1.0])))
        returned = {each.memory.pk for each in begun.found}
        told, missing = self._answer(ask, returned, chance)
        success = not missing and chance.random() < CALLED_SUCCESS
        outcome = complete_task(
            task=begun.task, by=self.by, now=moment(at + 5 / 1440),
            completion=Completion(result=" ".join(told.values()), impact=Impact.TASK_SUCCESS if success else None),
        )  # fmt: skip
        self._count(told.keys(), set(outcome.used_memory_ids))
        for key in missing:
            self._miss(key, at, chance)

    def _answer(
        self, ask: Ask, returned: set[Any], chance: random.Random
    ) -> tuple[dict[Any, str], list[int]]:
        """Return what is said of which memory, and which items were needed and not found."""
        told: dict[Any, str] = {}
        missing = []
        key_of = {self.memory_of[key].pk: key for key in self.memory_of}
        for key in ask.needs:
            item, stale = self.life.items[key], self._stale(key, returned)
            self.counts["needs"] += 1
            is_found = self.memory_of[key].pk in returned
            if not is_found:
                missing.append(key)
            if stale is not None and (not is_found or chance.random() < STALE_TOLD):
                self.counts["stale told"] += 1
                told[self.memory_of[stale].pk] = self._say(self.life.items[stale], chance)
            elif is_found:
                told[self.memory_of[key].pk] = self._say(item, chance)
        beside = sorted(key_of[each] for each in returned - told.keys() if each in key_of)
        if beside and chance.random() < BESIDE_THE_POINT:
            item = self.life.items[chance.choice(beside)]
            told["beside"] = f"By the way, there was {item.answer[0]} {item.answer[1]} too."
        return told, missing

    def _stale(self, key: int, returned: set[Any]) -> int | None:
        """Return what was true before, where that was returned."""
        former = self.life.items[key].replaces
        return former if former is not None and self.memory_of[former].pk in returned else None

    def _say(self, item: Item, chance: random.Random) -> str:
        one, two = item.answer
        if chance.random() < HALF_TOLD:
            return f"As to the {item.aspect}, it was done with {one}."
        return f"The {item.aspect} was taken care of: {one} {two}."

    def _count(self, told: Iterable[Any], used: set[Any]) -> None:
        """Count how well detection found what was told."""
        truly = {each for each in told if each != "beside"}
        self.counts["told"] += len(truly)
        self.counts["told and detected"] += len(truly & used)
        self.counts["detected"] += len(used)

    def _miss(self, key: int, at: float, chance: random.Random) -> None:
        from strength.models import Memory

        memory = self.memory_of[key]
        if Memory.objects.get(pk=memory.pk).status == "active":
            self.counts["missed, crowded out"] += 1
            return
        self.counts["missed, archived"] += 1
        if key in self.awaited:
            return
        self.awaited.add(key)
        again = chance.random() < TOLD_AGAIN
        self._plan(at + chance.uniform(1, 3), lambda at: self._bring_back(key, again, at))

    def _bring_back(self, key: int, again: bool, at: float) -> None:
        from strength.actions.curation import apply_transition

        self.awaited.discard(key)
        item, former = self.life.items[key], self.memory_of[key]
        if at >= item.ends_at:
            return
        if again:
            self.counts["told again"] += 1
            said = f"the {item.aspect} is {item.answer[0]} {item.answer[1]}, on day {at:.0f}."
            self.tell(item, at, f"{item.topic}, to say it once more: {said}")
            self._stands_in(item, former, self.memory_of[key])
        else:
            self.counts["reactivated"] += 1
            apply_transition(memory=former, verb="reactivate", by=self.by, reason="missed", now=moment(at))

    def _stands_in(self, item: Item, former: Any, memory: Any) -> None:
        if former.pk != memory.pk:
            self.replaced.add(former.pk)
            self.memory_of[item.key] = memory

    def sleep(self, day: int) -> None:
        """Sleep one night."""
        from strength.actions.sleep import SleepRequest, sleep
        from strength.domain.sleep import Trigger

        sleep(actor=self.actor, request=SleepRequest(Trigger.COMMAND, self.by, moment(day + NIGHT)))

    def look(self, day: int) -> None:
        """Note how memories stand in the morning; each tenth day, judge what is active."""
        rows = self._rows(day)
        self.active.append(sum(row["status"] == "active" for row in rows.values()))
        self.known.append(len(rows))
        if day % EVERY_DAYS == 0 and day:
            key_of = {memory.pk: key for key, memory in self.memory_of.items()}
            held = {pk: row for pk, row in rows.items() if pk in key_of}
            self.evenings[day] = self._standings(day, held, key_of)

    def _rows(self, day: int) -> dict[Any, dict[str, Any]]:
        """Return the numbers of all memories that have not ended by word."""
        from strength.models import CurrentNumbers

        names = ("status", "strength", "access_count", "last_accessed_at", "memory__created_at", "valid_to")
        rows = CurrentNumbers.objects.filter(actor=self.actor).order_by("pk").values("pk", *names)
        return {row["pk"]: row for row in rows if row["valid_to"] is None or row["valid_to"] > moment(day)}

    def _standings(self, day: int, rows: Mapping[Any, Any], key_of: Mapping[Any, int]) -> list[Standing]:
        import numpy as np

        needs, memory_ids = self.life.needed(day + NIGHT), list(rows)
        asked = [vector for at, vector in self.queries if day - HORIZON_DAYS < at <= day]
        cosines = np.zeros((len(rows), 1))
        if asked and rows:
            cosines = np.array([self._vector(each) for each in memory_ids]) @ np.array(asked).T
        return [
            Standing(
                key=key_of[pk], is_active=row["status"] == "active", strength=row["strength"],
                age_days=(moment(day + NIGHT) - row["memory__created_at"]) / ONE_DAY,
                idle_days=(moment(day + NIGHT) - (row["last_accessed_at"] or row["memory__created_at"])) / ONE_DAY,
                uses=row["access_count"], similarity=float(near.mean()), nearest=float(near.max()),
                needs=needs[key_of[pk]],
            )
            for (pk, row), near in zip(rows.items(), cosines, strict=True)
        ]  # fmt: skip

    def _vector(self, memory_id: Any) -> Any:
        from strength.models import MemoryIndex

        if memory_id not in self.vectors:
            known = MemoryIndex.objects.filter(actor=self.actor).exclude(memory_id__in=list(self.vectors))
            self.vectors.update(
                (pk, _unit(vector)) for pk, vector in known.values_list("memory_id", "vector")
            )
        return self.vectors[memory_id]


def _unit(vector: Sequence[float]) -> Any:
    import numpy as np

    return np.asarray(vector, np.float32) / np.linalg.norm(vector)


def simulate(variant: Variant, number: int, tick: Callable[[], None]) -> dict[str, Any]:
    """Let one agent of a variant live; return what was seen of it. Needs Django set up."""
    from django.db import connection

    from memoryhub.search.index import frequencies

    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off")
    agent = Agent(number, live(variant.shape, 1000 * variant.seed + number), variant.policy)
    for day in range(variant.shape.days):
        agent.live_until(day + NIGHT)
        frequencies.forget()  # else how long they are kept is a matter of the real clock
        if variant.sleeps:
            agent.sleep(day)
        agent.look(day)
        tick()
    return {
        "evenings": agent.evenings,
        "counts": agent.counts,
        "active": agent.active,
        "known": agent.known,
    }


def report(variant: Variant, lives: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of a variant: one rule for all days and agents, and counts of memories by day."""
    evenings = lives[0]["evenings"]
    days = [day for day in evenings if HORIZON_DAYS <= day <= variant.shape.days - HORIZON_DAYS] or list(
        evenings
    )
    return {
        "variant": asdict(variant),
        "pooled": pooled([life["evenings"][day] for life in lives for day in days]),
        "by_agent": [pooled([life["evenings"][day] for day in days]) for life in lives],
        "counts": dict(sum((life["counts"] for life in lives), Counter())),
        "active": [mean(each) for each in zip(*(life["active"] for life in lives), strict=True)],
        "known": [mean(each) for each in zip(*(life["known"] for life in lives), strict=True)],
        "needed": {day: mean(judge(life["evenings"][day])["needed"] for life in lives) for day in days},
    }


_ticks: Any = None


def _prepare(ticks: Any) -> None:
    """Take where to tell of the progress; who is interrupted ends us, by a SIGTERM, after which nothing is left."""
    global _ticks
    _ticks = ticks
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _end(number: int, frame: Any) -> None:
    raise SystemExit(128 + number)


def simulate_apart(job: tuple[Variant, int]) -> dict[str, Any]:
    """Simulate one agent of a variant in a process and an installation of its own."""
    variant, number = job
    with harness.installation():
        return simulate(variant, number, lambda: _ticks.put(variant.name))


def run(todo: Sequence[Variant], quiet: bool) -> list[dict[str, Any]]:
    """Simulate the agents of all variants, two at a time; return a report of each variant."""
    context = multiprocessing.get_context("spawn")
    ticks = context.Queue()
    jobs = [(variant, number) for variant in todo for number in range(variant.agents)]
    with harness.progress(quiet) as bar:
        task = bar.add_task("", total=sum(variant.shape.days for variant, _ in jobs))

        def show_ticks() -> None:
            while (name := ticks.get()) is not None:
                bar.update(task, advance=1, description=f"agents' days, {name}")

        shown = threading.Thread(target=show_ticks)
        shown.start()
        try:
            with context.Pool(AT_ONCE, _prepare, (ticks,), maxtasksperchild=1) as pool:
                lives = iter(list(pool.imap(simulate_apart, jobs)))
        finally:
            ticks.put(None)
            shown.join()
    return [report(variant, list(itertools.islice(lives, variant.agents))) for variant in todo]


def lines(done: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, float]]]:
    """Yield the lines of the tables: the plain run, its agents one by one, the variants."""
    plain, *others = done
    yield plain["variant"]["name"], plain["pooled"]
    if len(plain["by_agent"]) > 1:
        yield from ((f"  its agent {number}", figures) for number, figures in enumerate(plain["by_agent"], 1))
    yield from ((each["variant"]["name"], each["pooled"]) for each in others)


def show(done: Sequence[Mapping[str, Any]], console: Any) -> None:
    """Print the tables."""
    _table(console, "precision at the recall of what is active", FIGURES, lines(done))
    needs = ((each["variant"]["name"], each["counts"]) for each in done)
    _table(console, "what tasks needed, and what became of it", {name: name for name in COUNTED}, needs)


def _table(
    console: Any, title: str, columns: Mapping[str, str], told: Iterable[tuple[str, Mapping[str, float]]]
) -> None:
    from rich.table import Table

    table = Table("", title=title)
    for heading in columns:
        table.add_column(heading, justify="right")
    for name, figures in told:
        table.add_row(name, *(_told(figures.get(column, 0)) for column in columns.values()))
    console.print(table)


FIGURES: Final = {
    "active": "active", "recall": "recall", "precision": "precision", "needs met": "needs met",
    **{f"by {name}": f"precision, {name}" for name in (*RANKINGS, "random")},
}  # fmt: skip
COUNTED: Final = (
    "needs", "missed, archived", "missed, crowded out", "stale told", "told again", "reactivated", "told",
    "told and detected", "detected",
)  # fmt: skip


def _told(value: float) -> str:
    return f"{value:,.0f}" if value > 1.5 or not value else f"{value:.3f}"


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


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 on")
    return int(text)


def main() -> None:
    """Read the command line, simulate, and tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON, and nothing else")
    parser.add_argument("--days", type=_positive, default=180, help="how long they live (180)")
    parser.add_argument("--agents", type=_positive, default=4, help="how many agents (4)")
    parser.add_argument("--seed", type=_positive, default=1, help="what their lives are made from (1)")
    parser.add_argument("--plain", action="store_true", help="without the variants")
    parser.add_argument("--quick", action="store_true", help="one agent, twelve days: whether it runs at all")
    parser.add_argument(
        "--policy", type=json.loads, default={}, help='another policy, as {"archive_threshold": 0.2}'
    )
    parser.add_argument("--png", type=Path, help="draw the figures into this file")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.days, arguments.agents, arguments.plain = 12, 1, True
    plain = Variant(
        "plain", arguments.agents, arguments.seed, Shape(days=arguments.days), policy=arguments.policy
    )
    for number in harness.ENDED_BY:
        signal.signal(number, _end)
    done = run([plain, *([] if arguments.plain else variants(plain))], quiet=arguments.json)
    if arguments.png:
        draw(done[0], arguments.png)
    if arguments.json:
        print(json.dumps(done, indent=1))
    else:
        show(done, harness.console())


if __name__ == "__main__":
    main()
