"""Open every page of the admin in a full installation, and say what each costs.

    python bench/admin.py                                # 50,000 memories, 200,000 messages: a few minutes
    python bench/admin.py --actors 4 --worst 40          # of fewer actors; more lines
    python bench/admin.py --json > figures.json

Memories and messages come from `filling.py`; of every other sort that the admin shows there are thousands, and a few
rows have a long story: hundreds of revisions, receipts, points. Each page is opened as an administrator opens it,
without the network: queries are counted once, and time is the median of three. Exits with 1 where a page asks more
than 25 queries, weighs more than 400 KB, takes longer than a second, or does not open.
"""

import argparse
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import harness

MOST_QUERIES: Final = 25
MOST_KILOBYTES: Final = 400
MOST_MILLISECONDS: Final = 1_000
TIMES: Final = 3
DEEP: Final = 150
MISSING: Final = (302, 404)
PERHAPS: Final = (", page ", ": undo", ": text")
"""What not every list is long enough for, and not every row has."""

MEMORIES: Final = 50_000
MESSAGES: Final = 200_000
LONG_STORY: Final = 300
WORDS: Final = ("kanelo", "日本")


@dataclass(frozen=True)
class Page:
    """What one page cost: where it is, and what it is called in the report."""

    name: str
    address: str
    status: int
    queries: int
    kilobytes: float
    milliseconds: float

    @property
    def faults(self) -> list[str]:
        """Return the limits that it passes."""
        limits = (
            (self.status != 200, f"answered {self.status}"),
            (self.queries > MOST_QUERIES, f"{self.queries} queries"),
            (self.kilobytes > MOST_KILOBYTES, f"{self.kilobytes:.0f} KB"),
            (self.milliseconds > MOST_MILLISECONDS, f"{self.milliseconds:.0f} ms"),
        )
        return [said for is_passed, said in limits if is_passed]

    @property
    def share(self) -> float:
        """Return how far it has come to its nearest limit: 1 is there."""
        return max(
            self.queries / MOST_QUERIES,
            self.kilobytes / MOST_KILOBYTES,
            self.milliseconds / MOST_MILLISECONDS,
        )


# Rows


class Maker:
    """Makes rows of any model: what it must have and nobody states, by the field's type."""

    def __init__(self, now: datetime, share: float = 1.0) -> None:
        self.now = now
        self.share = share
        self._keys: dict[Any, list[tuple[Any, Any]]] = {}

    def make(self, model: Any, count: int, /, **given: Any) -> None:
        """Store rows; what is given may be a value, or a function of the row's number."""
        wanted = count if count <= LONG_STORY else max(LONG_STORY, int(count * self.share))
        rows = (self._row(model, number, given) for number in range(wanted))
        while batch := list(itertools.islice(rows, 2_000)):
            model._base_manager.bulk_create(batch, ignore_conflicts=True)

    def _row(self, model: Any, number: int, given: dict[str, Any]) -> Any:
        values = {name: value(number) if callable(value) else value for name, value in given.items()}
        names = {field.name for field in model._meta.concrete_fields}
        for field in model._meta.concrete_fields:
            if (
                field.name in values
                or field.attname in values
                or field.has_default()
                or field.has_db_default()
            ):
                continue
            if field.name != "actor" and not (field.null or field.blank):
                values |= self._value(field, number, names, values)
        if "actor" in names and not {"actor", "actor_id"} & values.keys():
            values["actor_id"] = self._key("memoryhub.Actor", number)[1]
        return model(**values)

    def _value(self, field: Any, number: int, names: set[str], values: dict[str, Any]) -> dict[str, Any]:
        kind = field.get_internal_type()
        if field.related_model is not None:
            actor, key = self._key(field.related_model._meta.label, number)
            own = {"actor_id": actor} if "actor" in names and actor and "actor" not in values else {}
            return {**own, field.attname: key}
        if field.choices:
            return {field.name: field.choices[number % len(field.choices)][0]}
        made = {
            "DateTimeField": self.now - timedelta(minutes=number),
            "DateField": (self.now - timedelta(days=number)).date(),
            "FloatField": 0.5,
            "BooleanField": False,
            "JSONField": {},
            "BinaryField": number.to_bytes(32, "big"),
            "ArrayField": [],
        }
        if "Integer" in kind:
            return {field.name: number % 1_000 + 1}
        return {field.name: made.get(kind, f"row-{number}")}

    def _key(self, label: str, number: int) -> tuple[Any, Any]:
        from django.apps import apps

        if label not in self._keys:
            model = apps.get_model(label)
            has_actor = any(field.name == "actor" for field in model._meta.concrete_fields)
            names = ("actor_id", "pk") if has_actor else ("pk", "pk")
            self._keys[label] = list(model._base_manager.order_by("pk").values_list(*names)[:5_000])
        keys = self._keys[label]
        return keys[number % len(keys)]


def fill(actors: int, memories: int, messages: int, tick: Callable[[str], None]) -> None:
    """Fill an empty installation: memories and messages in bulk, and thousands of everything else."""
    import filling
    from django.contrib.auth.models import Group, User

    size = filling.Size(actors, memories // actors, messages // actors)
    _empty()
    filling.make_pool()
    filling.fill(size)
    tick("memories and messages")
    User.objects.filter(username="boss").delete()
    User.objects.create_superuser("boss", password="a long password")
    Group.objects.get_or_create(name="readers")
    maker = Maker(datetime.now(UTC), memories / MEMORIES)
    _fill_ground(maker)
    tick("jobs, calls, keys")
    _fill_talks(maker)
    tick("receipts, questions, summaries, projects")
    _fill_curation(maker)
    filling.settle()
    tick("revisions, merges, tasks")


def _empty() -> None:
    """Take away what a former run has left besides what `filling.empty` takes."""
    from django.apps import apps
    from django.db import connection

    names = ("AuditEntry", "ApiKey", "Job", "Worker", "ScheduleState", "LedgerEntry", "TokenFactors")
    tables = ", ".join(apps.get_model("memoryhub", name)._meta.db_table for name in names)
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {tables} CASCADE")


def _fill_ground(maker: Maker) -> None:
    from memoryhub.auth.models import ApiKey, AuditEntry
    from memoryhub.ids import new_id
    from memoryhub.jobs.models import Job, Worker
    from memoryhub.llm.usage.models import LedgerEntry, TokenFactors

    states = ("done", "queued", "dead", "failed")
    known = {value for value, _ in Job._meta.get_field("state").choices}
    usable = [state for state in states if state in known]
    maker.make(Job, 20_000, kind=lambda n: f"kind-{n % 9}", key="", state=lambda n: usable[n % len(usable)],
               error=lambda n: "x" * (n % 500), created_at=lambda n: maker.now - timedelta(minutes=n))  # fmt: skip
    maker.make(Worker, 5, id=lambda n: new_id(), seen_at=maker.now)
    maker.make(LedgerEntry, 30_000, agent_id=lambda n: f"bench-{n % 10}", outcome="ok", input_tokens=900,
               output_tokens=90, cost="0.01", model=lambda n: f"model-{n % 4}")  # fmt: skip
    maker.make(TokenFactors, 40, model=lambda n: f"model-{n}")
    maker.make(AuditEntry, 50_000, object_id=lambda n: str(new_id()))
    maker.make(ApiKey, 300, prefix=lambda n: f"mh_{n}", digest=lambda n: f"{n:064x}",
               scopes=["read"])  # fmt: skip


def _fill_talks(maker: Maker) -> None:
    from conversations.models import ChatTurn, Receipt
    from memoryhub.ids import new_id
    from strength.models import Memory
    from summaries.models import (
        Document,
        DocumentVersion,
        Project,
        ProjectEvent,
        RoutingDecision,
        Summary,
        SummaryVersion,
    )

    one = Memory.objects.order_by("-id").first()
    assert one is not None

    def items(number: int) -> list[dict[str, Any]]:
        scores = {"similarity_weighted": 0.4, "strength_weighted": 0.2, "recency_weighted": 0.1}
        item = {
            "layer": "semantic", "source_id": str(one.pk if number < LONG_STORY else new_id()),
            "tokens": 20, "included": bool(number % 3), "reason": "included", "relevance": 0.5, "final_score": 0.7,
            "score_breakdown": scores, "excerpt": "what was remembered " * 5,
        }  # fmt: skip
        return [item, *({**item, "source_id": str(new_id())} for _ in range(40))]

    maker.make(Receipt, 5_000, actor_id=one.actor_id, items=items, query=lambda n: f"What about {n}?",
               source_ids=lambda n: [one.pk] if n < LONG_STORY else [new_id()])  # fmt: skip
    maker.make(ChatTurn, 5_000, state="answered", key=None)
    maker.make(Summary, 2_000, text="What was said. " * 100, end_time=maker.now)
    maker.make(SummaryVersion, LONG_STORY, number=lambda n: n + 1, text="What was said. " * 100, end_time=maker.now,
               **_of_first(Summary, "summary"))  # fmt: skip
    maker.make(Project, 500, name=lambda n: f"project-{n}")
    maker.make(
        Document, 1_500, name=lambda n: f"detail-{n}.md", text="# A project\n\n" + "- a line of text\n" * 400
    )
    maker.make(DocumentVersion, LONG_STORY, number=lambda n: n, text="# A project\n\n" + "- a line\n" * 300,
               **_of_first(Document, "document"))  # fmt: skip
    maker.make(ProjectEvent, 10_000, details={})
    maker.make(RoutingDecision, 10_000, message="What about the garden? " * 20)


def _fill_curation(maker: Maker) -> None:
    from memoryhub.ids import new_id
    from strength.models import (
        Memory,
        MemoryRevision,
        MemorySource,
        Merge,
        PerspectiveStrength,
        SleepRun,
        StrengthPoint,
        Task,
        Tombstone,
    )

    pending = Memory.objects.order_by("id").values_list("pk", flat=True)[:3_000]
    Memory.objects.filter(pk__in=list(pending)).update(status="pending")
    before, after = "Likes green tea. " * 60, "Likes black tea. " * 60
    values = {"content": after, "status": "active", "pinned": False}
    latest = _of_first(Memory, "memory", newest=True)
    maker.make(MemoryRevision, LONG_STORY, number=lambda n: n + 1, changed_before={"content": before},
               changed_after={"content": after}, after=values, verb="edit", **latest)  # fmt: skip
    maker.make(MemoryRevision, 20_000, number=1, verb="create", changed_after=values, after=values)
    messages = maker._key
    maker.make(MemorySource, LONG_STORY, message_id=lambda n: messages("conversations.Message", n)[1],
               session_id=lambda n: messages("conversations.Session", n)[1], trust="trusted", **latest)  # fmt: skip
    maker.make(
        StrengthPoint, LONG_STORY, day=lambda n: (maker.now - timedelta(days=n)).date(), kind="used", **latest
    )
    maker.make(PerspectiveStrength, 40, perspective=lambda n: f"view {n}", **latest)
    ids = list(Memory.objects.order_by("-id").values_list("actor_id", "pk")[:12_000])
    pairs = [(one, other) for one, other in itertools.pairwise(ids) if one[0] == other[0]] or [
        ((actor, one), (actor, other))
        for actor in {actor for actor, _ in ids}
        for one, other in itertools.pairwise([key for owner, key in ids if owner == actor])
    ]
    maker.make(Merge, min(3_000, len(pairs)), actor_id=lambda n: pairs[n][0][0], kept_id=lambda n: pairs[n][0][1],
               absorbed_id=lambda n: pairs[n][1][1], likeness=0.9, kept_version=1, absorbed_version=1,
               state=lambda n: ("proposed", "dismissed")[n % 2])  # fmt: skip
    changes = [
        {"kind": "decay", "memory_id": str(new_id()), "why": "faded", "before": 1.0, "after": 0.9}
        for _ in range(200)
    ]
    maker.make(SleepRun, 2_000, number=lambda n: n + 1, state="done", changes=lambda n: changes if n < 20 else [],
               processed_at=maker.now)  # fmt: skip
    offered = [{"id": str(new_id()), "scores": {"final": 0.7}} for _ in range(50)]
    maker.make(
        Task, 5_000, query="What does the user drink? " * 10, offered=lambda n: offered, state="completed"
    )
    maker.make(Tombstone, 5_000, terms=[1, 2], marks=[1], order=[1], digest=lambda n: n.to_bytes(32, "big"))


def _of_first(model: Any, name: str, *, newest: bool = False) -> dict[str, Any]:
    """Return the columns that make rows belong to one row of a model: its newest, or any."""
    row = model._base_manager.order_by("-pk" if newest else "pk").first()
    return {f"{name}_id": row.pk, "actor_id": row.actor_id}


# Pages


def addresses(request: Any) -> Iterator[tuple[str, str]]:
    """Yield every page with its name: lists as they are asked for, one row of each sort, and the pages apart."""
    from django.contrib import admin
    from django.urls import NoReverseMatch, reverse

    from memoryhub.admin.base import PAGES

    yield "first page", reverse("admin:index")
    for model in sorted(admin.site._registry, key=lambda each: str(each._meta.label)):
        yield from _of_model(model, admin.site._registry[model], request)
    for page in PAGES:
        try:
            yield page.name, reverse(page.name)
        except NoReverseMatch:
            continue  # about one row: it stands among that model's


def _of_model(model: Any, screen: Any, request: Any) -> Iterator[tuple[str, str]]:
    from django.urls import reverse

    label, stem = model._meta.label, f"admin:{model._meta.app_label}_{model._meta.model_name}"
    listed = reverse(f"{stem}_changelist")
    yield f"{label}: list", listed
    if screen.search_fields:
        for word in WORDS:
            yield f"{label}: list, searched for {word}", f"{listed}?q={word}"
    for query in _filters(model, screen):
        yield f"{label}: list, {query}", f"{listed}?{query}"
    rows = model._default_manager
    if rows.count() > screen.list_per_page:
        pages = min(rows.count(), 10_000) // screen.list_per_page
        for page in {2, min(DEEP, pages)}:
            yield f"{label}: list, page {page}", f"{listed}?p={page}"
    for row in {
        each.pk: each for each in (rows.order_by("pk").first(), rows.order_by("-pk").first()) if each
    }.values():
        yield f"{label}: page", reverse(f"{stem}_change", args=[row.pk])
        yield from _beside(model, row, stem)
        if screen.has_delete_permission(request, row):
            yield f"{label}: delete", reverse(f"{stem}_delete", args=[row.pk])


def _filters(model: Any, screen: Any) -> Iterator[str]:
    """Yield a query for each filter of a list that names a field, and the search by meaning."""
    from unfold.contrib.filters.admin import TextFilter

    for each in screen.list_filter:
        name = each[0] if isinstance(each, tuple) else each
        if not isinstance(name, str):
            yield (
                f"{name.parameter_name}=user-1"
                if issubclass(name, TextFilter)
                else f"{name.parameter_name}=all"
            )
            continue
        if name.endswith("agent"):
            yield f"{name}__agent_id__exact=bench-1"
            continue
        field = model._meta.get_field(name)
        if field.get_internal_type() == "DateTimeField":
            yield f"{name}_from_0=2020-01-01&{name}_from_1=00:00:00"
        elif field.choices:
            yield f"{name}__exact={field.choices[0][0]}"
        elif field.get_internal_type() == "BooleanField":
            yield f"{name}__exact=1"
    if model._meta.label == "strength.Memory":
        yield "by=meaning&q=kanelo"
        for question in ("kanelo dabi", "日本語の記憶"):
            yield f"by=meaning&q={question}&actor__agent__agent_id__exact=bench-1&user=user-1"
        yield "pinned__exact=0&status__exact=active&q=kanelo"


def _beside(model: Any, row: Any, stem: str) -> Iterator[tuple[str, str]]:
    """Yield the further pages of one row."""
    from django.urls import NoReverseMatch, reverse

    for name in ("retrieved", "text", "timeline", "undo"):
        try:
            yield f"{model._meta.label}: {name}", reverse(f"{stem}_{name}", args=[row.pk])
        except NoReverseMatch:
            continue


def opened(browser: Any, name: str, address: str) -> Page:
    """Open a page: once to count, and as often as it takes to time it."""
    from django.db import connection

    asked: list[str] = []

    def note(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        asked.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        response = browser.get(address)
    taken = []
    for _ in range(TIMES):
        started = time.perf_counter()
        response = browser.get(address)
        taken.append(1000 * (time.perf_counter() - started))
    size = 0 if response.streaming else len(response.content)
    return Page(
        name,
        address,
        response.status_code,
        len(asked),
        round(size / 1024, 1),
        round(statistics.median(taken), 1),
    )


def measure(tick: Callable[[str], None]) -> list[Page]:
    """Open all pages as an administrator."""
    from django.contrib.auth.models import User
    from django.test import Client, RequestFactory

    browser, request = Client(SERVER_NAME="localhost"), RequestFactory().get("/admin/")
    request.user = User.objects.get(username="boss")
    browser.force_login(request.user)
    browser.get("/admin/")
    found = []
    for name, address in addresses(request):
        page = opened(browser, name, address)
        if not (page.status in MISSING and any(mark in name for mark in PERHAPS)):
            found.append(page)
        tick(name)
    return sorted(found, key=lambda page: (-len(page.faults), -page.share))


def report(pages: Sequence[Page], worst: int) -> None:
    """Print what the pages cost, the worst first."""
    from rich.table import Table

    table = Table(
        "page", "queries", "KB", "ms", "passes", title=f"{len(pages)} pages of the admin, the worst first"
    )
    for page in pages[:worst]:
        table.add_row(
            page.name,
            str(page.queries),
            f"{page.kilobytes:.0f}",
            f"{page.milliseconds:.0f}",
            ", ".join(page.faults),
        )
    harness.console().print(table)


def main() -> None:
    """Read the arguments, measure, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    harness.common_arguments(parser)
    parser.add_argument("--actors", type=int, default=5, help="whose all of it is")
    parser.add_argument("--memories", type=int, default=MEMORIES)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--worst", type=int, default=25, help="how many pages are printed")
    parser.add_argument("--filled", action="store_true", help="the folder of --keep is filled already")
    arguments = parser.parse_args()

    def tick(what: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr)

    with harness.installation(database_url=arguments.database_url, keep=arguments.keep):
        import filling

        if not arguments.filled:
            filling.empty()
            fill(arguments.actors, arguments.memories, arguments.messages, tick)
        pages = measure(tick)
    if arguments.json:
        print(
            json.dumps(
                [{**asdict(page), "faults": page.faults} for page in pages], indent=2, ensure_ascii=False
            )
        )
    else:
        report(pages, arguments.worst)
    sys.exit(1 if any(page.faults for page in pages) else 0)


if __name__ == "__main__":
    main()
