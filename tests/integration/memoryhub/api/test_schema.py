"""The OpenAPI schema: no warning, every operation and enum named by us, and equal to the committed file."""

import json
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from django.conf import settings
from django.core.management import call_command
from django.test import Client
from drf_spectacular.generators import SchemaGenerator

from tests.sources import from_yaml, openapi

COMMITTED = Path(settings.BASE_DIR) / "docs" / "reference" / "openapi.yaml"


@pytest.fixture(scope="module")
def schema() -> str:
    out = StringIO()
    call_command("spectacular", fail_on_warn=True, validate=True, stdout=out)
    return out.getvalue()


def test_schema_is_the_committed_one(schema: str) -> None:
    assert schema == COMMITTED.read_text(encoding="utf-8"), "Look at the difference, then: make schema"


def test_every_operation_has_a_chosen_id(schema: str) -> None:
    ids = [each["operationId"] for path in _paths(schema) for each in path.values()]
    assert len(ids) == len(set(ids)) > 70
    drawn = {"retrieve", "partial_update", "destroy"}
    assert not [each for each in ids if drawn & set(each.split("_")) and each != "memories_retrieve"]


def test_no_enum_is_named_by_its_hash(schema: str) -> None:
    named = [name for name in from_yaml(schema)["components"]["schemas"] if name.endswith("Enum")]
    assert len(named) > 20
    assert not [name for name in named if any(sign.isdigit() for sign in name)]


def _paths(schema: str) -> list[dict[str, Any]]:
    return list(from_yaml(schema)["paths"].values())


@pytest.mark.parametrize(("address", "is_json"), [("", False), ("?format=json", True)])
def test_schema_is_served_from_its_file(address: str, is_json: bool, db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SchemaGenerator, "get_schema", Mock(side_effect=AssertionError("generated")))
    answer = Client().get(f"/api/v1/schema{address}")
    assert answer.status_code == 200 and ("json" in answer["Content-Type"]) is is_json
    read = json.loads if is_json else from_yaml
    assert read(answer.content)["paths"].keys() == openapi()["paths"].keys()


def test_what_is_deprecated_is_on_the_page() -> None:
    """One that is deprecated needs the headers of docs/reference/deprecation.md, which no operation sends yet."""
    assert "## Deprecated now\n\nNothing.\n" in COMMITTED.with_name("deprecation.md").read_text(encoding="utf-8")
    assert "deprecated:" not in COMMITTED.read_text(encoding="utf-8")
