"""Open every page of the admin in a full installation, and say what each costs.

    python bench/admin.py                                # 50,000 memories, 200,000 messages: a few minutes
    python bench/admin.py --actors 4 --worst 40          # of fewer actors; more lines
    python bench/admin.py --json > figures.json

Memories and messages come from `filling.py`; of every other sort that the admin shows there are thousands, and a few
rows have a long story: hundreds of revisions, receipts, points. Each page is opened as an administrator opens it,
without the network: queries are counted once, and time is the median of three. Then 60 waiting memories are decided.
Exits with 1 where a page asks more than 25 queries, weighs more than 350 KB, takes longer than a second, or does not
open.
"""

import itertools
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import harness
from django.apps import apps

LIMITS: Final = {"queries": 25, "kilobytes": 350, "milliseconds": 1_000}
TIMES: Final = 3
DEEP: Final = 150
MISSING: Final = (302, 404)
PRESSED: Final = 405
"""The answer of an address that is for a button."""

DECISIONS: Final = 60
FORM: Final = re.compile(rb'name="item" value="([^"]+)">.*?name="version" value="(\d+)"', re.DOTALL)
PERHAPS: Final = (", page ", ": undo", ": text")
"""Parts of the names of pages that not every list is long enough for, and not every row has."""

MEMORIES: Final = 50_000
MESSAGES: Final = 200_000
LONG_STORY: Final = 300
WORDS: Final = ("kanelo", "日本")


@dataclass(frozen=True)
class Page:
    """The cost of one page."""

    name: str
    address: str
    status: int
    queries: int
    kilobytes: float
    milliseconds: float
    writes: bool = False
    """A decision asks more than a page: it is bounded by its time."""

    @property
    def limits(self) -> dict[str, float]:
        return {name: most for name, most in LIMITS.items() if not (self.writes and name == "queries")}

    @property
    def faults(self) -> list[str]:
        """Return the limits that it passes."""
        wrong = [] if self.status == 200 else [f"answered {self.status}"]
        return wrong + [
            f"{getattr(self, name):.0f} {name}"
            for name, most in self.limits.items()
            if getattr(self, name) > most
        ]

    @property
    def share(self) -> float:
        """Return how far it has come to its nearest limit: 1 is there."""
        return max(getattr(self, name) / most for name, most in self.limits.items())


# Rows


class Maker:
    """Makes rows of any model: what it must have and nobody states, by the field's type."""

    def __init__(self, now: datetime, share: float) -> None:
        self.now, self.share = now, share
        self._keys: dict[Any, list[tuple[Any, Any]]] = {}

    def make(self, model: Any, count: int, /, **given: Any) -> None:
        """Store rows; what is given may be a value, or a function of the row's number."""
        if isinstance(model, str):
            model = apps.get_model(model)
        wanted = count if count <= LONG_STORY else max(LONG_STORY, int(count * self.share))
        rows = (self._row(model, number, given) for number in range(wanted))
        while batch := list(itertools.islice(rows, 2_000)):
            model._base_manager.bulk_create(batch, ignore_conflicts=True)

    def _row(self, model: Any, number: int, given: dict[str, Any]) -> Any:
        values = {name: value(number) if callable(value) else value for name, value in given.items()}
        has_actor = _has_actor(model)
        for field in model._meta.concrete_fields:
            is_given = (
                {field.name, field.attname} & values.keys() or field.has_default() or field.has_db_default()
            )
            if is_given or field.name == "actor" or field.null or field.blank:
                continue
            if field.related_model is not None:
                actor, values[field.attname] = self.key(field.related_model, number)
                if has_actor and actor:
                    values.setdefault("actor_id", actor)
            else:
                values[field.name] = self._value(field, number)
        if has_actor and not {"actor", "actor_id"} & values.keys():
            values["actor_id"] = self.key("memoryhub.Actor", number)[1]
        return model(**values)

    def _value(self, field: Any, number: int) -> Any:
        kind = field.get_internal_type()
        if field.choices:
            return field.choices[number % len(field.choices)][0]
        if "Integer" in kind:
            return number % 1_000 + 1
        made = {
            "DateTimeField": self.now - timedelta(minutes=number), "FloatField": 0.5, "BooleanField": False,
            "DateField": (self.now - timedelta(days=number)).date(), "JSONField": {}, "ArrayField": [],
            "BinaryField": number.to_bytes(32, "big"),
        }  # fmt: skip
        return made.get(kind, f"row-{number}")

    def key(self, model: Any, number: int) -> tuple[Any, Any]:
        """Return the actor and the key of one of a model's rows."""
        if model not in self._keys:
            found = apps.get_model(model) if isinstance(model, str) else model
            names = ("actor_id", "pk") if _has_actor(found) else ("pk", "pk")
            self._keys[model] = list(found._base_manager.order_by("pk").values_list(*names)[:5_000])
        keys = self._keys[model]
        return keys[number % len(keys)]


def _has_actor(model: Any) -> bool:
    return any(field.name == "actor" for field in model._meta.concrete_fields)


def fill(actors: int, memories: int, messages: int, tick: Callable[[str], None]) -> None:
    """Fill an empty installation: memories and messages in bulk, and thousands of everything else."""
    import filling
    from django.contrib.auth.models import Group, User
    from django.db import connection

    names = ("AuditEntry", "ApiKey", "Job", "Worker", "ScheduleState", "LedgerEntry", "TokenFactors")
    tables = ", ".join(apps.get_model("memoryhub", name)._meta.db_table for name in names)
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {tables} CASCADE")
    filling.empty()
    filling.make_pool()
    filling.fill(filling.Size(actors, memories // actors, messages // actors))
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


def _fill_ground(maker: Maker) -> None:
    from memoryhub.ids import new_id

    states = ("done", "queued", "dead", "failed")
    maker.make("memoryhub.Job", 20_000, kind=lambda n: f"kind-{n % 9}", key="", state=lambda n: states[n % 4],
               error=lambda n: "x" * (n % 500), created_at=lambda n: maker.now - timedelta(minutes=n))  # fmt: skip
    maker.make("memoryhub.Worker", 5, id=lambda n: new_id(), seen_at=maker.now)
    maker.make("memoryhub.LedgerEntry", 30_000, agent_id=lambda n: f"bench-{n % 10}", outcome="ok", input_tokens=900,
               output_tokens=90, cost="0.01", model=lambda n: f"model-{n % 4}")  # fmt: skip
    maker.make("memoryhub.TokenFactors", 40, model=lambda n: f"model-{n}")
    maker.make("memoryhub.AuditEntry", 50_000, object_id=lambda n: str(new_id()))
    maker.make(
        "memoryhub.ApiKey", 300, prefix=lambda n: f"mh_{n}", digest=lambda n: f"{n:064x}", scopes=["read"]
    )


def _fill_talks(maker: Maker) -> None:
    from memoryhub.ids import new_id

    one = _first("strength.Memory", newest=True)
    scores = {"similarity_weighted": 0.4, "strength_weighted": 0.2, "recency_weighted": 0.1}

    def items(number: int) -> list[dict[str, Any]]:
        item = {
            "layer": "semantic", "tokens": 20, "included": bool(number % 3), "reason": "included", "relevance": 0.5,
            "final_score": 0.7, "score_breakdown": scores, "excerpt": "what was remembered " * 5,
        }  # fmt: skip
        ids = [one.pk if number < LONG_STORY else new_id(), *(new_id() for _ in range(40))]
        return [{**item, "source_id": str(each)} for each in ids]

    maker.make("conversations.Receipt", 5_000, actor_id=one.actor_id, items=items, query=lambda n: f"What about {n}?",
               source_ids=lambda n: [one.pk] if n < LONG_STORY else [new_id()])  # fmt: skip
    maker.make("conversations.ChatTurn", 5_000, state="answered", key=None)
    said = {"text": "What was said. " * 100, "end_time": maker.now}
    maker.make("summaries.Summary", 2_000, **said)
    summary = _first("summaries.Summary")
    maker.make("summaries.SummaryVersion", LONG_STORY, number=lambda n: n + 1, summary_id=summary.pk,
               actor_id=summary.actor_id, **said)  # fmt: skip
    maker.make("summaries.Project", 500, name=lambda n: f"project-{n}")
    text = "# A project\n\n" + "- a line of text\n" * 400
    maker.make("summaries.Document", 1_500, name=lambda n: f"detail-{n}.md", text=text)
    document = _first("summaries.Document")
    maker.make("summaries.DocumentVersion", LONG_STORY, number=lambda n: n, text=text, document_id=document.pk,
               actor_id=document.actor_id)  # fmt: skip
    maker.make("summaries.ProjectEvent", 10_000, details={})
    maker.make("summaries.RoutingDecision", 10_000, message="What about the garden? " * 20)


def _fill_curation(maker: Maker) -> None:
    from memoryhub.ids import new_id
    from strength.models import Memory

    pending = Memory.objects.order_by("id").values_list("pk", flat=True)[:3_000]
    Memory.objects.filter(pk__in=list(pending)).update(status="pending")
    before, after = "Likes green tea. " * 60, "Likes black tea. " * 60
    values = {"content": after, "status": "active", "pinned": False}
    memory = _first("strength.Memory", newest=True)
    latest = {"memory_id": memory.pk, "actor_id": memory.actor_id}
    maker.make("strength.MemoryRevision", LONG_STORY, number=lambda n: n + 1, changed_before={"content": before},
               changed_after={"content": after}, after=values, verb="edit", **latest)  # fmt: skip
    maker.make("strength.MemoryRevision", 20_000, number=1, verb="create", changed_after=values, after=values)
    maker.make("strength.MemorySource", LONG_STORY, message_id=lambda n: maker.key("conversations.Message", n)[1],
               session_id=lambda n: maker.key("conversations.Session", n)[1], trust="trusted", **latest)  # fmt: skip
    maker.make("strength.StrengthPoint", LONG_STORY, day=lambda n: (maker.now - timedelta(days=n)).date(), kind="used",
               **latest)  # fmt: skip
    maker.make("strength.PerspectiveStrength", 40, perspective=lambda n: f"view {n}", **latest)
    ids = sorted(Memory.objects.order_by("-id").values_list("actor_id", "pk")[:12_000])
    pairs = [(one, other) for one, other in itertools.pairwise(ids) if one[0] == other[0]]
    maker.make("strength.Merge", min(3_000, len(pairs)), actor_id=lambda n: pairs[n][0][0],
               kept_id=lambda n: pairs[n][0][1], absorbed_id=lambda n: pairs[n][1][1], likeness=0.9, kept_version=1,
               absorbed_version=1, state=lambda n: ("proposed", "dismissed")[n % 2])  # fmt: skip
    change = {"kind": "decay", "why": "faded", "before": 1.0, "after": 0.9}
    changes = [{**change, "memory_id": str(new_id())} for _ in range(200)]
    maker.make("strength.SleepRun", 2_000, number=lambda n: n + 1, state="done", processed_at=maker.now,
               changes=lambda n: changes if n < 20 else [])  # fmt: skip
    offered = [{"id": str(new_id()), "scores": {"final": 0.7}} for _ in range(50)]
    maker.make("strength.Task", 5_000, query="What does the user drink? " * 10, offered=lambda n: offered,
               state="completed")  # fmt: skip
    maker.make(
        "strength.Tombstone",
        5_000,
        terms=[1, 2],
        marks=[1],
        order=[1],
        digest=lambda n: n.to_bytes(32, "big"),
    )


def _first(label: str, *, newest: bool = False) -> Any:
    return apps.get_model(label)._base_manager.order_by("-pk" if newest else "pk").first()


# Pages


def addresses(request: Any) -> Iterator[tuple[str, str]]:
    """Yield every page with its name: lists as they are asked for, one row of each sort, and the pages apart."""
    from django.contrib import admin
    from django.urls import reverse

    from memoryhub.admin.base import PAGES

    yield "first page", reverse("admin:index")
    for model in sorted(admin.site._registry, key=lambda each: str(each._meta.label)):
        screen, label = admin.site._registry[model], model._meta.label
        stem = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        listed, rows = reverse(f"{stem}_changelist"), model._default_manager
        queries = ["", *(f"q={word}" for word in WORDS if screen.search_fields), *_filters(model, screen)]
        yield from ((f"{label}: list {query}", f"{listed}?{query}") for query in queries)
        if rows.count() > screen.list_per_page:
            pages = min(rows.count(), 10_000) // screen.list_per_page
            yield from (
                (f"{label}: list, page {page}", f"{listed}?p={page}") for page in {2, min(DEEP, pages)}
            )
        first_and_last = (rows.order_by("pk").first(), rows.order_by("-pk").first())
        for row in {each.pk: each for each in first_and_last if each}.values():
            further = ("change", "retrieved", "text", "timeline", "undo")
            names = (*further, "delete") if screen.has_delete_permission(request, row) else further
            for name in names:
                yield from _existing(f"{label}: {name}", f"{stem}_{name}", row.pk)
    for page in PAGES:  # those about one row stand among that model's
        yield from _existing(page.name, page.name)


def _existing(name: str, page: str, *arguments: Any) -> Iterator[tuple[str, str]]:
    from django.urls import NoReverseMatch, reverse

    with suppress(NoReverseMatch):
        yield name, reverse(page, args=arguments)


def _filters(model: Any, screen: Any) -> Iterator[str]:
    """Yield a query for each filter of a list that names a field, and the search by meaning."""
    from unfold.contrib.filters.admin import TextFilter

    for each in screen.list_filter:
        name = each[0] if isinstance(each, tuple) else each
        if not isinstance(name, str):
            yield f"{name.parameter_name}={'user-1' if issubclass(name, TextFilter) else 'all'}"
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


def opened(browser: Any, name: str, address: str) -> Page:
    """Open a page: once to count, and as often as it takes to time it."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as asked:
        response = browser.get(address)
    queries = len(asked)  # before the next request, which begins to count anew
    taken = []
    for _ in range(TIMES):
        started = time.perf_counter()
        response = browser.get(address)
        taken.append(1000 * (time.perf_counter() - started))
    size = 0 if response.streaming else len(response.content)
    milliseconds = round(statistics.median(taken), 1)
    return Page(name, address, response.status_code, queries, round(size / 1024, 1), milliseconds)


def decided(browser: Any) -> Page:
    """Decide one memory after the other; return the 95th percentile of the time to the next one."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext
    from django.urls import reverse

    address, taken, queries = reverse("review"), [], 0
    shown = browser.get(address)
    for number in range(DECISIONS):
        form = FORM.search(shown.content)
        if form is None:
            raise SystemExit(f"The review queue ended after {number} decisions.")
        item, version = (part.decode() for part in form.groups())
        body = {"verb": ("approve", "reject")[number % 2], "item": item, "version": version}
        with CaptureQueriesContext(connection) as asked:
            started = time.perf_counter()
            shown = browser.post(address, body, headers={"X-Requested-With": "fetch"})
            taken.append(1000 * (time.perf_counter() - started))
        queries = max(queries, len(asked))
    slow = statistics.quantiles(taken, n=20)[-1]
    return Page(
        name="review: the next item (p95)",
        address=address,
        status=shown.status_code,
        queries=queries,
        kilobytes=round(len(shown.content) / 1024, 1),
        milliseconds=round(slow, 1),
        writes=True,
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
        is_missing = page.status in MISSING and any(mark in name for mark in PERHAPS)
        if not is_missing and page.status != PRESSED:
            found.append(page)
        tick(name)
    found.append(decided(browser))
    return sorted(found, key=lambda page: (-len(page.faults), -page.share))


def main() -> None:
    parser = harness.parser_of(__doc__)
    parser.add_argument("--actors", type=harness.positive, default=5, help="whose all of it is")
    parser.add_argument("--memories", type=harness.positive, default=MEMORIES)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--worst", type=int, default=25, help="how many pages are printed")
    arguments = parser.parse_args()

    def tick(what: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr)

    def show(pages: Sequence[dict[str, Any]], console: Any) -> None:
        names = ("name", *LIMITS, "faults")
        rows = [{name: page[name] for name in names} for page in pages[: arguments.worst]]
        harness.table(console, rows, f"{len(pages)} pages of the admin, the worst first")

    with harness.installation():
        fill(arguments.actors, arguments.memories, arguments.messages, tick)
        pages = measure(tick)
    harness.tell([{**asdict(page), "faults": page.faults} for page in pages], arguments, show)
    sys.exit(1 if any(page.faults for page in pages) else 0)


if __name__ == "__main__":
    main()
