"""Open every page of the admin in a full installation, and say what each costs.

    python bench/admin.py                                # 50,000 memories, 200,000 messages: a few minutes
    python bench/admin.py --memories 2000                # a quick look
    python bench/admin.py --json > figures.json

Memories and four times as many messages come from `filling.py`, everything else from the demo, whose rows are copied
until there are 5,000 of each sort, and hundreds of revisions of a memory. Each page is opened as an administrator opens
it, without the network: queries are counted once, and time is the median of three. Then 60 waiting memories are
decided. Exits with 1 where a page passes a limit or fails.
"""

import itertools
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import harness

LIMITS: Final = {"queries": 25, "kilobytes": 350, "milliseconds": 1_000}
TIMES: Final = 3
DECISIONS: Final = 60
FORM: Final = re.compile(rb'name="item" value="([^"]+)">.*?name="version" value="(\d+)"', re.DOTALL)
ACTORS: Final = 5
MEMORIES: Final = 50_000
COPIED: Final = 5_000
"""Rows of each other sort; as many memories wait for a review."""

OPENED: Final = ("change", "retrieved", "text", "timeline", "undo", "delete")
NO_PAGE: Final = (302, 403, 404, 405)
"""The answers of what a row does not have or nobody may do with it, and of addresses that are for a button."""

WORDS: Final = ("kanelo", "日本")
BY_MEANING: Final = (
    "by=meaning&q=kanelo",
    "by=meaning&q=kanelo dabi&actor__agent__agent_id__exact=bench-1&user=user-1",
    "by=meaning&q=日本語の記憶&actor__agent__agent_id__exact=bench-1&user=user-1",
    "pinned__exact=0&status__exact=active&q=kanelo",
)


def fill(memories: int) -> None:
    """Fill an empty installation."""
    import filling
    from django.contrib import admin
    from django.contrib.auth.models import User

    from memoryhub.auth.principals import command
    from memoryhub.importexport.demo import load_demo
    from memoryhub.jobs.queue import enqueue
    from strength.models import Memory

    filling.make_pool()
    filling.fill(filling.Size(ACTORS, memories // ACTORS, 4 * memories // ACTORS // 100 * 100))
    some = Memory.objects.order_by("id").values("pk")[:COPIED]
    Memory.objects.filter(pk__in=some).update(status="pending")
    harness.say("memories and messages are there")
    User.objects.create_superuser("boss", password="a long password")
    load_demo(by=command("bench"), now=datetime.now(UTC))
    enqueue("vacuum")
    for model in admin.site._registry:
        multiply(model)
    filling.settle()


def multiply(model: Any) -> None:
    """Copy a table's rows, each with a key and a number of its own; what must be unique otherwise is not copied."""
    from django.db import connection

    meta, count = model._meta, model._base_manager.count()
    of_its_own = {"UUIDField": "gen_random_uuid()", "BigAutoField": None, "AutoField": None}
    if not 0 < count < COPIED or meta.pk.get_internal_type() not in of_its_own:
        return
    values = {field.column: f'"{field.column}"' for field in meta.concrete_fields if not field.generated}
    values |= {"number": f"number + {COPIED} * copy"} if "number" in values else {}
    values[meta.pk.column] = of_its_own[meta.pk.get_internal_type()]
    values = {name: value for name, value in values.items() if value}
    columns = ", ".join(f'"{name}"' for name in values)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {meta.db_table} ({columns}) SELECT {', '.join(values.values())} "
            f"FROM {meta.db_table}, generate_series(1, %s) AS copy ON CONFLICT DO NOTHING",
            [COPIED // count],
        )


def addresses() -> Iterator[tuple[str, str]]:
    """Yield every page with its name: lists as they are asked for, the first and last row of each, and the others."""
    from django.contrib import admin
    from django.urls import NoReverseMatch, reverse

    from memoryhub.unfold import PAGES

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
    figures, taken = {"queries": len(queries)}, []  # before the next request, which begins to count anew
    for _ in range(TIMES):
        started = time.perf_counter()
        answer = ask()
        taken.append(1000 * (time.perf_counter() - started))
    size = 0 if answer.streaming else len(answer.content) / 1024
    figures |= {"kilobytes": round(size, 1), "milliseconds": round(statistics.median(taken), 1)}
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


def measure() -> list[dict[str, Any]]:
    """Open all pages as an administrator; return their figures, those nearest to a limit first."""
    from django.contrib.auth.models import User
    from django.test import Client

    browser = Client(SERVER_NAME="localhost", raise_request_exception=False)
    browser.force_login(User.objects.get(username="boss"))
    browser.get("/admin/")
    pages = []
    for name, address in addresses():
        harness.say(name)
        answer, figures = asked(name, lambda address=address: browser.get(address))
        pages += [figures] if answer.status_code not in NO_PAGE else []
    pages.append(decided(browser))
    for each in pages:
        each["share of limit"] = max(each[name] / most for name, most in LIMITS.items() if name in each)
    return sorted(pages, key=lambda page: (page["status"] == 200, -page["share of limit"]))


def main() -> int:
    parser = harness.parser_of(__doc__)
    parser.add_argument("--memories", type=harness.positive, default=MEMORIES, help=f"({MEMORIES:,})")
    parser.add_argument("--worst", type=int, default=25, help="how many pages are printed (25)")
    given = parser.parse_args()

    with harness.installation():
        fill(given.memories)
        pages = measure()
    if not given.json:
        print(f"{len(pages)} pages of the admin, the worst first")
    harness.tell(pages if given.json else pages[: given.worst], given)
    return int(any(page["status"] != 200 or page["share of limit"] > 1 for page in pages))


if __name__ == "__main__":
    sys.exit(main())
