"""Kinds of jobs for the tests, and a table in which their effects can be counted."""

from collections.abc import Iterator
from typing import Any

import pytest

from memoryhub.jobs import registry


@pytest.fixture(autouse=True)
def test_kinds(settings: Any) -> Iterator[None]:
    """Register this folder's kinds beside the product's."""
    settings.JOB_KINDS = settings.JOB_KINDS | {
        "nothing": {"run": "tests.integration.memoryhub.jobs.doings.nothing"},
        "note": {"run": "tests.integration.memoryhub.jobs.doings.note"},
        "steps": {"run": "tests.integration.memoryhub.jobs.doings.steps"},
        "fails": {"run": "tests.integration.memoryhub.jobs.doings.fails"},
        "alone": {"run": "tests.integration.memoryhub.jobs.doings.nothing", "at_once": 1},
    }
    registry.job_kinds.cache_clear()
    yield
    registry.job_kinds.cache_clear()
