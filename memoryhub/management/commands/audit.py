"""`manage.py audit`: the audit trail as JSON Lines, the oldest first; with --follow, new entries as they come."""

import json
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.core.serializers.json import DjangoJSONEncoder
from django.db import InterfaceError, OperationalError, connection
from django.utils import timezone

from memoryhub.auth.models import AuditEntry
from memoryhub.management import moment_option

POLL_SECONDS: Final = 2.0
LATE: Final = timedelta(minutes=30)
"""An entry has the time at which its change began, and is seen when that is committed. No change takes as long."""

FIELDS: Final = (
    "id", "at", "who_kind", "who_id", "who_name", "verb", "object_kind", "object_id", "agent_id", "user_id", "reason",
    "details",
)  # fmt: skip


class Command(BaseCommand):
    help = "Print the audit trail as JSON Lines, the oldest entry first."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--since", metavar="TIME", help="From this day or time; with --follow by default from now.")
        parser.add_argument("--follow", action="store_true", help="Print what comes, until it is stopped.")

    def handle(self, *args: Any, **options: Any) -> None:
        since = moment_option("--since", options["since"])
        if since is not None and since > timezone.now():
            raise CommandError("--since is in the future.")
        if not options["follow"]:
            self._write(_entries(since))
            return
        since, written = since or timezone.now(), dict[UUID, datetime]()
        while True:
            started = timezone.now()
            try:
                self._write(_entries(since), written)
            except (OperationalError, InterfaceError) as error:  # it is away, and what was not printed comes later
                self.stderr.write(f"The database does not answer ({type(error).__name__}).")
                connection.close()
            else:
                since = max(since, started - LATE)
                written = {key: at for key, at in written.items() if at >= since}
            time.sleep(POLL_SECONDS)

    def _write(self, entries: Iterator[dict[str, Any]], written: dict[UUID, datetime] | None = None) -> None:
        """Print entries, each on a line; of those in `written` none again."""
        for entry in entries:
            if written is None or entry["id"] not in written:
                self.stdout.write(json.dumps(entry, cls=DjangoJSONEncoder, ensure_ascii=False))
                if written is not None:
                    written[entry["id"]] = entry["at"]
        self.stdout.flush()


def _entries(since: datetime | None) -> Iterator[dict[str, Any]]:
    rows = AuditEntry.objects.all() if since is None else AuditEntry.objects.filter(at__gte=since)
    yield from rows.order_by("at", "id").values(*FIELDS).iterator()
