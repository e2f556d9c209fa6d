"""Load the demo: an export whose times are shifted by whole days, so that its six weeks end today.

`demo.jsonl` is an output of `manage.py export` made at DEMO_ENDS_AT; replace the file to replace the demo. Exports have
no spending; `demo_spending.jsonl` has a ledger entry, one model call, in each line. These end a day earlier, so that
today's figures and caps are those of real calls alone.
"""

import io
import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from django.db import transaction

from memoryhub.auth.principals import Principal
from memoryhub.importexport.native.importer import TargetNames, check, store
from memoryhub.importexport.native.jsonl import Digest, Part, read_lines
from memoryhub.llm.usage.models import LedgerEntry
from memoryhub.tenancy.models import Agent
from memoryhub.tenancy.policy import actor_id

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
    body = [digest.line(line.part, _shift_times(line.values, days), table=line.table) for line in lines]
    moved = io.BytesIO(b"".join([*body, digest.end()]))
    checked = check(moved, TargetNames(), progress=lambda count: None)
    moved.seek(0)
    with transaction.atomic():
        store(moved, checked, TargetNames(), by=by, now=now, dry_run=False, progress=lambda count: None)
        LedgerEntry.objects.bulk_create(_spending(days - timedelta(days=1)))


def _spending(offset: timedelta) -> Iterator[LedgerEntry]:
    with SPENDING.open() as file:
        for line in file:
            values = _shift_times(json.loads(line), offset)
            owner_id = actor_id(values["agent_id"], values.pop("user_id"))
            yield LedgerEntry(actor_id=owner_id, **values)


def _shift_times(value: Any, offset: timedelta) -> Any:
    if isinstance(value, dict):
        return {key: _shift_times(item, offset) for key, item in value.items()}
    if isinstance(value, list):
        return [_shift_times(item, offset) for item in value]
    if isinstance(value, str) and _DATETIME.fullmatch(value):
        return (datetime.fromisoformat(value) + offset).isoformat()
    if isinstance(value, str) and _DATE.fullmatch(value):
        return (date.fromisoformat(value) + offset).isoformat()
    return value
