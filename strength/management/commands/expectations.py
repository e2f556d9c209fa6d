"""`manage.py expectations`: check that contexts still have the memories that people expect in them."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from memoryhub.auth.access import tenant_for_reading
from memoryhub.auth.principals import command
from memoryhub.errors import DomainError
from memoryhub.management import ResumableCommand, add_selection_options, selection_of
from strength.actions.expectations import check, expect_of_message, with_calls
from strength.models import Expectation, ExpectationState

BROKEN = 1


class Command(ResumableCommand):
    help = (
        "Check the expectations about contexts: a memory must, or must not, be in the context of a message. Exits "
        "with 1 where one is broken. Without --agent: of all agents and users."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_selection_options(parser)
        parser.add_argument("--json", action="store_true", help="One JSON object for each expectation, one on a line.")
        parser.add_argument(
            "--add",
            metavar="FILE",
            help="First keep those of a file of JSON objects, one on a line, as --json writes them; of each, "
            "agent_id, user_id, query, memory_id and wanted count. Known ones are kept once.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        by, selection = command("expectations"), selection_of(options)
        if options["add"]:
            for number, values in _lines(Path(options["add"])):
                self._add(number, values)
        rows = list(with_calls(Expectation.objects.filter(actor__in=selection.actors()).order_by("actor_id", "pk")))
        kept = broken = 0
        with self.progress_bar() as bar:
            shown = bar.add_task("Checking", total=len(rows))
            for row in check(rows, by=by, now=timezone.now()):
                is_kept = row.state == ExpectationState.KEPT
                kept, broken = kept + is_kept, broken + (not is_kept)
                self._report(row, as_json=options["json"])
                bar.advance(shown)
        if not options["json"]:
            self.stdout.write(f"{kept} kept, {broken} broken.")
        if broken:
            sys.exit(BROKEN)

    def _add(self, number: int, values: Mapping[str, Any]) -> None:
        by, now = command("expectations"), timezone.now()
        try:
            tenant = tenant_for_reading(by, str(values["agent_id"]), str(values["user_id"]))
            expect_of_message(
                tenant=tenant, message=str(values["query"]), memory_id=UUID(str(values["memory_id"])),
                is_wanted=bool(values.get("wanted", True)), by=by, now=now,
            )  # fmt: skip
        except KeyError as error:
            raise CommandError(f"Line {number} lacks {error}.") from error
        except (DomainError, ValueError) as error:
            raise CommandError(f"Line {number}: {error}") from error

    def _report(self, row: Expectation, *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(_as_json(row), ensure_ascii=False))
        elif row.state == ExpectationState.BROKEN:
            wanted = "is missing" if row.is_wanted else "must not be there"
            self.stdout.write(f"broken  {row.pk}  memory {row.memory_id} {wanted}: {row.receipt.query[:80]}")


def _as_json(row: Expectation) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "agent_id": row.actor.agent_id,
        "user_id": row.actor.user_id,
        "query": row.receipt.query,
        "memory_id": str(row.memory_id),
        "wanted": row.is_wanted,
        "state": row.state,
        "broken_at": row.broken_at.isoformat() if row.broken_at else None,
    }


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a file of JSON lines with their numbers. Raises CommandError."""
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    values = json.loads(line)
                    if not isinstance(values, dict):
                        raise CommandError(f"Line {number} of {path} is no JSON object.")
                    yield number, values
    except OSError as error:
        raise CommandError(f"Cannot read {path}: {error.strerror}.") from error
    except ValueError as error:
        raise CommandError(f"{path} has a line that is no JSON: {error}.") from error
