"""Load the demo: an export whose times are moved by whole days, so that its six weeks end today.

`demo.jsonl` is what `manage.py export` writes, made at DEMO_ENDS_AT; replace the file to replace the demo. What was
spent is in no export; `demo_spending.jsonl` has a call to a model in each line, with the columns of the ledger.
"""

import io
import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from django.db import transaction

from memoryhub.auth.domain import Principal
from memoryhub.importexport.importer import TargetNames, check, store
from memoryhub.importexport.jsonl import Digest, Part, read_lines
from memoryhub.llm.usage.models import LedgerEntry
from memoryhub.tenancy.domain import actor_id
from memoryhub.tenancy.models import Agent

DEMO: Final = Path(__file__).with_name("demo.jsonl")
SPENDING: Final = Path(__file__).with_name("demo_spending.jsonl")
DEMO_ENDS_AT: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_DATETIME = re.compile(_DATE.pattern + r"T\d\d:\d\d:\d\d(\.\d+)?\+00:00")


def load_demo(*, by: Principal, now: datetime) -> None:
    """Import the demo, whole or not at all; do nothing where one of its agents exists."""
    with DEMO.open("rb") as file:
        lines = list(read_lines(file))
    agents = [line.values["agent_id"] for line in lines if line.part is Part.AGENT]
    if Agent.objects.filter(agent_id__in=agents).exists():
        return
    digest, days = Digest(), timedelta(days=(now - DEMO_ENDS_AT).days)
    body = [digest.line(line.part, _moved_value(line.values, days), table=line.table) for line in lines]
    moved = io.BytesIO(b"".join([*body, digest.end()]))
    checked = check(moved, TargetNames(), progress=lambda count: None)
    moved.seek(0)
    with transaction.atomic():
        store(moved, checked, TargetNames(), by=by, now=now, dry_run=False, progress=lambda count: None)
        LedgerEntry.objects.bulk_create(_spending(days))


def _spending(by: timedelta) -> Iterator[LedgerEntry]:
    with SPENDING.open() as file:
        for line in file:
            values = _moved_value(json.loads(line), by)
            whose = actor_id(values["agent_id"], values.pop("user_id"))
            yield LedgerEntry(actor_id=whose, **values)


def _moved_value(value: Any, by: timedelta) -> Any:
    if isinstance(value, dict):
        return {key: _moved_value(each, by) for key, each in value.items()}
    if isinstance(value, list):
        return [_moved_value(each, by) for each in value]
    if isinstance(value, str) and _DATETIME.fullmatch(value):
        return (datetime.fromisoformat(value) + by).isoformat()
    if isinstance(value, str) and _DATE.fullmatch(value):
        return (date.fromisoformat(value) + by).isoformat()
    return value
