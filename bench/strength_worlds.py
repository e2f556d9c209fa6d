"""Invented lives of agents whose useful and useless memories are known, and how well a policy tells them apart.

Pure: knows neither Django nor how strength grows. A life is a script made from a seed before anything is remembered:
what is told when, and which tasks come and what each needs. So every policy meets the same life. Words are invented,
and a text is a frame with a topic, an aspect and words of its own, so that

* a remark about a topic has the very words that tasks about it ask for: similarity alone is fooled;
* a remark is as fresh and as specific as a fact when it is told: only what happens later tells them apart;
* some remarks are asked for once, some useless ones are said again: neither age nor one use decides alone.

A memory is useful at a moment if a task within the following `HORIZON_DAYS` needs it.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

HORIZON_DAYS: Final = 30.0
FOREVER: Final = math.inf
SYLLABLES: Final = [
    first + vowel for first in "bdfgklmnprstvz" for vowel in ["a", "e", "i", "o", "u", "an", "el"]
]
PEOPLE: Final = ("Maya", "Ken", "Yuno", "Hiroki", "Kana", "Ana", "Ben", "Olga")
LOOKS: Final = (
    "lovely", "odd", "slow", "bright", "dull", "funny", "quiet", "heavy", "strange", "neat", "rough",
    "clever", "late", "early", "cheap", "rare", "plain", "busy", "warm", "cold",
)  # fmt: skip
THINGS: Final = (
    "lunch", "weather", "music", "train", "garden", "meeting", "chair", "coffee", "window", "office",
    "street", "dinner", "holiday", "picture", "story", "bicycle", "parcel", "kitchen", "concert",
    "neighbour",
)  # fmt: skip

FACTS: Final = (
    "The {aspect} of {topic} is {one} {two}.",
    "{topic}: {one} {two} as {aspect}.",
    "For {topic}, the {aspect} goes by {one} with {two}.",
    "{who} set the {aspect} of {topic} to {one} {two}.",
)
REMARKS: Final = (
    "{who} found the {aspect} of {topic} {look} today, because of {one} {two}.",
    "{topic} and its {aspect} came up at {thing}, somebody said {one} {two}.",
    "The {aspect} of {topic} looked {look} beside {one} {two}.",
)
CHATTER: Final = (
    "{who} had {thing} with {one} and thought {two} was {look}.",
    "A {look} {thing}, said {who}, like {one} in {two}.",
)
QUERIES: Final = (
    "What do we know about the {aspects} of {topic}?",
    "Prepare {topic} for {who} and mind the {aspects}.",
    "Please settle the {aspects} of {topic}.",
)


@dataclass(frozen=True)
class Rhythm:
    """Frequency of questions about something, and its facts."""

    topics: int
    slots: int
    asks: tuple[int, int]
    """How many slots a task needs, at least and at most."""
    skewed: bool = False
    """Whether the first slots are asked for more often than the last."""


RHYTHMS: Final = {
    "daily": Rhythm(topics=3, slots=6, asks=(1, 3), skewed=True),  # 1.2 tasks a day each
    "weekly": Rhythm(topics=6, slots=4, asks=(2, 4)),  # one every 7 days, a day more or less
    "monthly": Rhythm(topics=4, slots=3, asks=(2, 3)),  # one every 30 days, four more or less
    "seasonal": Rhythm(topics=1, slots=3, asks=(1, 3)),  # five days in a row every 90
    "project": Rhythm(topics=6, slots=6, asks=(1, 3), skewed=True),  # 2 a day for 3 to 6 weeks, then none
}


@dataclass(frozen=True)
class Shape:
    """Amount of events of an agent; `tasks` thins the tasks, `useless` says how many useless memories come a day."""

    days: int = 180
    tasks: float = 1.0
    useless: float = 4.0
    one_offs: float = 0.6
    """Tasks a day that ask for a remark of the days before, once."""
    changes_after: float = 120.0
    """Days until the truth about a slot changes, on average."""


@dataclass
class Item:
    """Something that is told once: a fact, until another one contradicts it, or a remark."""

    key: int
    sort: str
    """The rhythm of the topic, or `remark` or `chatter`."""
    told_at: float
    text: str
    topic: str
    aspect: str
    answer: tuple[str, str]
    ends_at: float = FOREVER
    replaces: int | None = None
    is_ended: bool = False
    """Whether its end is told, so that the memory ends too; else the stale fact stays among the others."""
    again_at: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Ask:
    """A task, and the items that hold its answer. `seed` decides what else is chance about it."""

    at: float
    query: str
    needs: tuple[int, ...]
    sort: str
    seed: int


@dataclass(frozen=True)
class Life:
    """All that will happen to an agent."""

    items: Sequence[Item]
    asks: Sequence[Ask]

    def needed(self, day: float, horizon: float = HORIZON_DAYS) -> Counter[int]:
        """Return which items that are known by then are needed in the days after, and how often."""
        asks = [ask for ask in self.asks if day < ask.at <= day + horizon]
        return Counter(key for ask in asks for key in ask.needs if self.items[key].told_at <= day)


def live(shape: Shape, seed: int) -> Life:
    """Return a life; the same for the same seed and shape."""
    return _Script(shape, random.Random(f"life {seed}")).life()


class _Script:
    def __init__(self, shape: Shape, chance: random.Random) -> None:
        self.shape, self.chance = shape, chance
        self.items: list[Item] = []
        self.asks: list[Ask] = []
        self.taken: set[str] = set()
        self.topics: list[tuple[str, list[str], float, float]] = []

    def life(self) -> Life:
        for sort, rhythm in RHYTHMS.items():
            for number in range(rhythm.topics):
                self._topic(sort, rhythm, number)
        self._useless()
        thinned = random.Random(self.chance.random())
        asks = [ask for ask in self.asks if thinned.random() < self.shape.tasks]
        return Life(self.items, sorted(asks, key=lambda ask: ask.at))

    def word(self, syllables: int = 3) -> str:
        """Return an invented word that nobody has used yet."""
        while (word := "".join(self.chance.choices(SYLLABLES, k=syllables))) in self.taken:
            pass
        self.taken.add(word)
        return word

    def _topic(self, sort: str, rhythm: Rhythm, number: int) -> None:
        name, aspects = self.word().title(), [self.word(2) for _ in range(rhythm.slots + 2)]
        begins, ends = 0.0, float(self.shape.days)
        if sort == "project":
            begins = max(1.0, (number + self.chance.uniform(-0.4, 0.4)) * 180 / rhythm.topics)
            ends = begins + self.chance.uniform(21, 42)
        self.topics.append((name, aspects, begins, ends))
        slots = [self._slot(sort, name, aspect, begins, ends) for aspect in aspects[: rhythm.slots]]
        weights = [1 / (place + 1) ** 0.7 if rhythm.skewed else 1.0 for place in range(rhythm.slots)]
        for at in self._moments(sort, begins, min(ends, self.shape.days)):
            pairs = zip(slots, weights, strict=True)
            known = [(facts, weight) for facts, weight in pairs if facts and facts[0].told_at < at]
            if not known:
                continue
            count, asked = self.chance.randint(*rhythm.asks), []
            while known and len(asked) < count:
                place = self.chance.choices(range(len(known)), [weight for _, weight in known])[0]
                facts, _ = known.pop(place)
                asked.append([fact for fact in facts if fact.told_at < at][-1])
            self._ask(sort, name, asked, at)

    def _moments(self, sort: str, begins: float, ends: float) -> Iterator[float]:
        """Yield when there is a task about a topic of this sort."""
        between = {"daily": 1 / 1.2, "project": 0.5}
        at = begins + self.chance.uniform(0, {"weekly": 7, "monthly": 30, "seasonal": 60}.get(sort, 1))
        while at < ends:
            if sort == "seasonal":
                yield from (self._by_day(at + day) for day in range(5) if at + day + 1 < ends)
                at += 90 + self.chance.uniform(-7, 7)
                continue
            yield self._by_day(at)
            if sort in between:
                at += self.chance.expovariate(1 / between[sort])
            else:
                at += 7 + self.chance.uniform(-1, 1) if sort == "weekly" else 30 + self.chance.uniform(-4, 4)

    def _by_day(self, at: float) -> float:
        """Return a moment between nine and six of the same day."""
        return math.floor(at) + self.chance.uniform(9, 18) / 24

    def _slot(self, sort: str, topic: str, aspect: str, begins: float, ends: float) -> list[Item]:
        """Tell what is true of an aspect of a topic, and what contradicts it later."""
        if sort == "project":
            at = begins + self.chance.uniform(0, 0.6) * (ends - begins) * self.chance.random()
        else:
            at = self.chance.uniform(0, 25) if self.chance.random() < 0.7 else self.chance.uniform(25, 150)
        at, facts = self._by_day(at), []
        while at < min(ends, self.shape.days):
            fact = self._tell(sort, FACTS, at, topic, aspect)
            if facts:
                facts[-1].ends_at, facts[-1].is_ended = at, self.chance.random() < 0.5
                fact.replaces = facts[-1].key
            facts.append(fact)
            at = self._by_day(at + 1 + self.chance.expovariate(1 / self.shape.changes_after))
        return facts

    def _tell(self, sort: str, frames: Sequence[str], at: float, topic: str, aspect: str) -> Item:
        answer = (self.word(), self.word())
        text = self.chance.choice(frames).format(
            topic=topic, aspect=aspect, one=answer[0], two=answer[1], who=self.chance.choice(PEOPLE),
            look=self.chance.choice(LOOKS), thing=self.chance.choice(THINGS),
        )  # fmt: skip
        item = Item(len(self.items), sort, at, text, topic, aspect, answer)
        if self.chance.random() < 0.03:
            item.again_at.append(at + self.chance.uniform(1, 20))
        self.items.append(item)
        return item

    def _ask(self, sort: str, topic: str, needed: Sequence[Item], at: float, extra: str = "") -> None:
        aspects = " and the ".join(item.aspect for item in needed) + extra
        query = self.chance.choice(QUERIES).format(
            topic=topic, aspects=aspects, who=self.chance.choice(PEOPLE)
        )
        keys = tuple(item.key for item in needed)
        self.asks.append(Ask(at, query, keys, sort, self.chance.getrandbits(32)))

    def _useless(self) -> None:
        """Tell remarks about what is going on, and chatter about nothing; a few of the remarks are asked for, once."""
        for day in range(self.shape.days):
            told: list[Item] = []
            for _ in range(_some(self.shape.useless, self.chance)):
                at = self._by_day(day)
                if self.chance.random() < 0.6:
                    going_on = [each for each in self.topics if each[2] <= at < each[3]]
                    name, aspects, _, _ = self.chance.choice(going_on)
                    told.append(self._tell("remark", REMARKS, at, name, self.chance.choice(aspects)))
                else:
                    self._tell("chatter", CHATTER, at, "", "")
            for _ in range(_some(self.shape.one_offs, self.chance)):
                if told:
                    item = self.chance.choice(told)
                    at = self._by_day(day + 1 + self.chance.expovariate(1 / 5))
                    self._ask("once", item.topic, [item], at, f" with {item.answer[0]}")


def _some(mean: float, chance: random.Random) -> int:
    """Return a whole number with this mean (Poisson)."""
    times = accumulate(iter(lambda: chance.expovariate(1.0), None))
    return next(count for count, time in enumerate(times) if time > mean)


@dataclass(frozen=True)
class Standing:
    """A memory on one evening: what each policy knows of it, and how often it will be needed."""

    key: int
    is_active: bool
    strength: float
    idle_days: float
    """Since the last use, else since the creation."""
    uses: int
    similarity: float
    """Mean cosine to the queries of the last 30 days."""
    nearest: float
    """The greatest cosine to one of them."""
    needs: int


RANKINGS: Final[Mapping[str, Callable[[Standing], tuple[float, ...]]]] = {
    "strength": lambda each: (each.is_active, each.strength),
    "recency": lambda each: (-each.idle_days,),
    "similarity": lambda each: (each.similarity,),
    "nearest query": lambda each: (each.nearest,),
    "access count": lambda each: (each.uses, -each.idle_days),
}
"""Of one evening or of many together: then it is one rule for all of them, as the threshold of strength is."""


def precision_at(order: Sequence[Standing], hits: int) -> float:
    """Return the share of needed ones among the first that hold so many needed ones; 1 for none."""
    found = 0
    for place, each in enumerate(order, 1):
        found += each.needs > 0
        if found >= hits:
            return found / place if hits else 1.0
    return found / len(order) if order else 0.0


def judge(population: Sequence[Standing]) -> dict[str, float]:
    """Return how good what is active is, and what each policy would keep to be as good.

    Of a policy: its precision at the same recall, and at each of LEVELS.
    """
    active = [each for each in population if each.is_active]
    needed = sum(each.needs > 0 for each in population)
    hits = sum(each.needs > 0 for each in active)
    figures: dict[str, float] = {
        "known": len(population),
        "active": len(active),
        "needed": needed,
        "precision": hits / max(1, len(active)),
        "recall": hits / max(1, needed),
        "precision, random": needed / max(1, len(population)),
    }
    for policy in RANKINGS:
        order = sorted(population, key=RANKINGS[policy], reverse=True)
        figures[f"precision, {policy}"] = precision_at(order, hits)
        for level in LEVELS:
            figures[f"at {level:.1f}, {policy}"] = precision_at(order, math.ceil(level * needed))
    return figures


LEVELS: Final = tuple(level / 10 for level in range(1, 11))


def pooled(evenings: Sequence[Sequence[Standing]]) -> dict[str, float]:
    """Return how good one rule is for all evenings; the counts are those of an evening on average."""
    figures = judge([each for evening in evenings for each in evening])
    return figures | {name: figures[name] / max(1, len(evenings)) for name in ("known", "active", "needed")}
