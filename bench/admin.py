"""Open every page of the admin in a full installation, and say what each costs.

    python bench/admin.py                                # 50,000 memories, 200,000 messages: a few minutes
    python bench/admin.py --memories 2000                # a quick look
    python bench/admin.py --json > figures.json

Memories and four times as many messages come from `filling.py`; of every other sort that the admin shows there are
thousands, and a few rows have a long story: hundreds of revisions, receipts, points. Each page is opened as an
administrator opens it, without the network: queries are counted once, and time is the median of three. Then 60 waiting
memories are decided. Exits with 1 where a page passes a limit or fails.
"""

import itertools
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import harness

LIMITS: Final = {"queries": 25, "kilobytes": 350, "milliseconds": 1_000}
TIMES: Final = 3
DECISIONS: Final = 60
FORM: Final = re.compile(rb'name="item" value="([^"]+)">.*?name="version" value="(\d+)"', re.DOTALL)
ACTORS: Final = 5
MEMORIES: Final = 50_000
STORY: Final = 300
"""Rows that the story of one memory, summary or document has."""

OPENED: Final = ("change", "retrieved", "text", "timeline", "undo", "delete")
NO_PAGE: Final = (302, 403, 404, 405)
"""The answers of what a row does not have or nobody may do with it, and of addresses that are for a button."""

WORDS: Final = ("kanelo", "日本")
BY_MEANING: Final = (
    "by=meaning&q=kanelo", "by=meaning&q=kanelo dabi&actor__agent__agent_id__exact=bench-1&user=user-1",
    "by=meaning&q=日本語の記憶&actor__agent__agent_id__exact=bench-1&user=user-1",
    "pinned__exact=0&status__exact=active&q=kanelo",
)  # fmt: skip


class Maker:
    """Makes rows of any model: what it must have and nobody states, by the field's type."""

    def __init__(self, share: float) -> None:
        self.now, self.share = datetime.now(UTC), share
        self._keys: dict[Any, list[tuple[Any, Any]]] = {}

    def make(self, label: str, count: int, /, **given: Any) -> None:
        """Store rows; what is given may be a value, or a function of the row's number."""
        from django.apps import apps

        model = apps.get_model(label)
        wanted = count if count <= STORY else max(STORY, int(count * self.share))
        rows = (self._row(model, number, given) for number in range(wanted))
        while batch := list(itertools.islice(rows, 2_000)):
            model._base_manager.bulk_create(batch, ignore_conflicts=True)

    def _row(self, model: Any, number: int, given: dict[str, Any]) -> Any:
        values = {name: value(number) if callable(value) else value for name, value in given.items()}
        fields = {field.name: field for field in model._meta.concrete_fields}
        for name, field in fields.items():
            has_value = {name, field.attname} & values.keys() or field.has_default() or field.has_db_default()
            if has_value or name == "actor" or field.null or field.blank:
                continue
            if field.related_model:
                actor, values[field.attname] = self.key(field.related_model, number)
                if "actor" in fields and actor:
                    values.setdefault("actor_id", actor)
            else:
                values[name] = self._value(field, number)
        if "actor" in fields and not {"actor", "actor_id"} & values.keys():
            values["actor_id"] = self.key(fields["actor"].related_model, number)[1]
        return model(**values)

    def _value(self, field: Any, number: int) -> Any:
        kind = field.get_internal_type()
        if field.choices:
            return field.choices[number % len(field.choices)][0]
        if "Integer" in kind:
            return number % 1_000 + 1
        made = {
            "DateTimeField": self.ago(number), "DateField": self.ago(1_440 * number).date(), "FloatField": 0.5,
            "BooleanField": False, "JSONField": {}, "ArrayField": [], "BinaryField": number.to_bytes(32, "big"),
        }  # fmt: skip
        return made.get(kind, f"row-{number}")

    def key(self, model: Any, number: int) -> tuple[Any, Any]:
        """Return the actor and the key of one of a model's rows."""
        if model not in self._keys:
            has_actor = any(field.name == "actor" for field in model._meta.concrete_fields)
            names = ("actor_id" if has_actor else "pk", "pk")
            self._keys[model] = list(model._base_manager.order_by("pk").values_list(*names)[:5_000])
        return self._keys[model][number % len(self._keys[model])]

    def ago(self, minutes: int) -> datetime:
        return self.now - timedelta(minutes=minutes)


def fill(memories: int, tick: Callable[[str], None]) -> None:
    """Fill an empty installation: memories and messages in bulk, and thousands of everything else."""
    import filling
    from django.contrib.auth.models import Group, User

    filling.make_pool()
    filling.fill(filling.Size(ACTORS, memories // ACTORS, 4 * memories // ACTORS // 100 * 100))
    tick("memories and messages")
    User.objects.create_superuser("boss", password="a long password")
    Group.objects.get_or_create(name="readers")
    maker = Maker(memories / MEMORIES)
    for part in (fill_ground, fill_talks, fill_curation):
        part(maker)
        tick(part.__name__)
    filling.settle()


def fill_ground(maker: Maker) -> None:
    from memoryhub.ids import new_id

    states = ("done", "queued", "dead", "failed")
    maker.make("memoryhub.Job", 20_000, kind=lambda n: f"kind-{n % 9}", key="", state=lambda n: states[n % 4],
               error=lambda n: "x" * (n % 500), created_at=maker.ago)  # fmt: skip
    maker.make("memoryhub.Worker", 5, id=lambda n: new_id(), seen_at=maker.now)
    maker.make("memoryhub.LedgerEntry", 30_000, agent_id=lambda n: f"bench-{n % 10}", outcome="ok", input_tokens=900,
               output_tokens=90, cost="0.01", model=lambda n: f"model-{n % 4}")  # fmt: skip
    maker.make("memoryhub.TokenFactors", 40, model=lambda n: f"model-{n}")
    maker.make("memoryhub.AuditEntry", 50_000, object_id=lambda n: str(new_id()))
    maker.make(
        "memoryhub.ApiKey", 300, prefix=lambda n: f"mh_{n}", digest=lambda n: f"{n:064x}", scopes=["read"]
    )


def fill_talks(maker: Maker) -> None:
    from memoryhub.ids import new_id
    from strength.models import Memory
    from summaries.models import Document, Summary

    memory = Memory.objects.latest("pk")
    item = {
        "layer": "semantic", "tokens": 20, "included": True, "reason": "included", "relevance": 0.5, "final_score": 0.7,
        "score_breakdown": {"similarity_weighted": 0.4, "strength_weighted": 0.2, "recency_weighted": 0.1},
        "excerpt": "what was remembered " * 5,
    }  # fmt: skip

    def sources(number: int) -> list[Any]:
        return [memory.pk if number < STORY else new_id(), *(new_id() for _ in range(40))]

    maker.make("conversations.Receipt", 5_000, actor_id=memory.actor_id, query=lambda n: f"What about {n}?",
               items=lambda n: [{**item, "source_id": str(each)} for each in sources(n)],
               source_ids=lambda n: sources(n)[:1])  # fmt: skip
    maker.make("conversations.ChatTurn", 5_000, state="answered", key=None)
    said = {"text": "What was said. " * 100, "end_time": maker.now}
    maker.make("summaries.Summary", 2_000, **said)
    whose = of(Summary.objects.earliest("pk"), "summary")
    maker.make("summaries.SummaryVersion", STORY, number=lambda n: n + 1, **said, **whose)
    maker.make("summaries.Project", 500, name=lambda n: f"project-{n}")
    text = "# A project\n\n" + "- a line of text\n" * 400
    maker.make("summaries.Document", 1_500, name=lambda n: f"detail-{n}.md", text=text)
    whose = of(Document.objects.earliest("pk"), "document")
    maker.make("summaries.DocumentVersion", STORY, number=lambda n: n, text=text, **whose)
    maker.make("summaries.ProjectEvent", 10_000, details={})
    maker.make("summaries.RoutingDecision", 10_000, message="What about the garden? " * 20)


def of(row: Any, name: str) -> dict[str, Any]:
    """Return the values of a row that belongs to another."""
    return {f"{name}_id": row.pk, "actor_id": row.actor_id}


def fill_curation(maker: Maker) -> None:
    from conversations.models import Message, Session
    from memoryhub.ids import new_id
    from strength.models import Memory

    Memory.objects.filter(pk__in=Memory.objects.order_by("id").values("pk")[:3_000]).update(status="pending")
    whose = of(Memory.objects.latest("pk"), "memory")
    before, after = {"content": "Likes green tea. " * 60}, {"content": "Likes black tea. " * 60}
    values = {**after, "status": "active", "pinned": False}
    maker.make("strength.MemoryRevision", STORY, number=lambda n: n + 1, changed_before=before, changed_after=after,
               after=values, verb="edit", **whose)  # fmt: skip
    maker.make("strength.MemoryRevision", 20_000, number=1, verb="create", changed_after=values, after=values)
    maker.make("strength.MemorySource", STORY, message_id=lambda n: maker.key(Message, n)[1], trust="trusted",
               session_id=lambda n: maker.key(Session, n)[1], **whose)  # fmt: skip
    maker.make(
        "strength.StrengthPoint", STORY, day=lambda n: maker.ago(1_440 * n).date(), kind="used", **whose
    )
    maker.make("strength.PerspectiveStrength", 40, perspective=lambda n: f"view {n}", **whose)
    ids = sorted(Memory.objects.order_by("-id").values_list("actor_id", "pk")[:12_000])
    pairs = [
        (actor, kept, other) for (actor, kept), (same, other) in itertools.pairwise(ids) if actor == same
    ]
    maker.make("strength.Merge", min(3_000, len(pairs)), actor_id=lambda n: pairs[n][0], kept_id=lambda n: pairs[n][1],
               absorbed_id=lambda n: pairs[n][2], likeness=0.9, kept_version=1, absorbed_version=1,
               state=lambda n: ("proposed", "dismissed")[n % 2])  # fmt: skip
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


def addresses() -> Iterator[tuple[str, str]]:
    """Yield every page with its name: lists as they are asked for, the first and last row of each, and the others."""
    from django.contrib import admin
    from django.urls import NoReverseMatch, reverse

    from memoryhub.admin.base import PAGES

    yield "first page", reverse("admin:index")
    for model in sorted(admin.site._registry, key=lambda each: str(each._meta.label)):
        screen, label, rows = admin.site._registry[model], model._meta.label, model._default_manager
        stem = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        pages = min(rows.count(), 10_000) // screen.list_per_page
        queries = ["", *(f"p={page}" for page in {2, min(150, pages)} if pages > 1), *filters(model, screen)]
        queries += [f"q={word}" for word in WORDS if screen.search_fields]
        queries += BY_MEANING if label == "strength.Memory" else ()
        yield from ((f"{label}: list {each}", f"{reverse(f'{stem}_changelist')}?{each}") for each in queries)
        ends = {row.pk for way in ("pk", "-pk") for row in rows.order_by(way)[:1]}
        for key, name in itertools.product(ends, OPENED):
            with suppress(NoReverseMatch):
                yield f"{label}: {name}", reverse(f"{stem}_{name}", args=[key])
    for page in PAGES:  # those about one row stand among that model's
        with suppress(NoReverseMatch):
            yield page.name, reverse(page.name)


def filters(model: Any, screen: Any) -> Iterator[str]:
    """Yield a query for each filter of a list that names a field."""
    from unfold.contrib.filters.admin import TextFilter

    for each in screen.list_filter:
        name = each[0] if isinstance(each, tuple) else each
        if not isinstance(name, str):
            yield f"{name.parameter_name}={'user-1' if issubclass(name, TextFilter) else 'all'}"
        elif name.endswith("agent"):
            yield f"{name}__agent_id__exact=bench-1"
        elif (field := model._meta.get_field(name)).get_internal_type() == "DateTimeField":
            yield f"{name}_from_0=2020-01-01&{name}_from_1=00:00:00"
        elif field.choices:
            yield f"{name}__exact={field.choices[0][0]}"
        elif field.get_internal_type() == "BooleanField":
            yield f"{name}__exact=1"


def asked(name: str, ask: Callable[[], Any]) -> tuple[Any, dict[str, Any]]:
    """Ask once to count, and some times to time it; return the last answer, and the figures."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as queries:
        ask()
    counted, taken = len(queries), []  # before the next request, which begins to count anew
    for _ in range(TIMES):
        started = time.perf_counter()
        answer = ask()
        taken.append(1000 * (time.perf_counter() - started))
    size = 0 if answer.streaming else len(answer.content) / 1024
    figures = {
        "queries": counted,
        "kilobytes": round(size, 1),
        "milliseconds": round(statistics.median(taken), 1),
    }
    return answer, {"page": name, "status": answer.status_code, **figures}


def decided(browser: Any) -> dict[str, Any]:
    """Decide one memory after the other; return the 95th percentile of the time to the next one."""
    from django.urls import reverse

    address, taken = reverse("review"), []
    shown = browser.get(address)
    for number in range(DECISIONS):
        form = FORM.search(shown.content)
        if form is None:
            raise SystemExit(f"The review queue ended after {number} decisions.")
        item, version = (part.decode() for part in form.groups())
        body = {"verb": ("approve", "reject")[number % 2], "item": item, "version": version}
        started = time.perf_counter()
        shown = browser.post(address, body, headers={"X-Requested-With": "fetch"})
        taken.append(1000 * (time.perf_counter() - started))
    # A decision writes, and asks more than a page: it is bounded by its time.
    milliseconds = round(statistics.quantiles(taken, n=20)[-1], 1)
    return {"page": "review: the next item (p95)", "status": shown.status_code, "milliseconds": milliseconds}


def measure(tick: Callable[[str], None]) -> list[dict[str, Any]]:
    """Open all pages as an administrator; return their figures, those nearest to a limit first."""
    from django.contrib.auth.models import User
    from django.test import Client

    browser = Client(SERVER_NAME="localhost", raise_request_exception=False)
    browser.force_login(User.objects.get(username="boss"))
    browser.get("/admin/")
    pages = []
    for name, address in addresses():
        tick(name)
        answer, figures = asked(name, lambda address=address: browser.get(address))
        pages += [figures] if answer.status_code not in NO_PAGE else []
    pages.append(decided(browser))
    for each in pages:
        each["share of limit"] = max(each[name] / most for name, most in LIMITS.items() if name in each)
    return sorted(pages, key=lambda page: (page["status"] == 200, -page["share of limit"]))


def main() -> int:
    parser = harness.parser_of(__doc__)
    parser.add_argument(
        "--memories", type=harness.positive, default=MEMORIES, help=f"of all users ({MEMORIES:,})"
    )
    parser.add_argument("--worst", type=int, default=25, help="how many pages are printed (25)")
    given = parser.parse_args()

    def tick(what: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr)

    with harness.installation():
        fill(given.memories, tick)
        pages = measure(tick)
    if not given.json:
        print(f"{len(pages)} pages of the admin, the worst first")
    harness.tell(pages if given.json else pages[: given.worst], given)
    return int(any(page["status"] != 200 or page["share of limit"] > 1 for page in pages))


if __name__ == "__main__":
    sys.exit(main())
