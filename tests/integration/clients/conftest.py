"""The real web server, a key for it, and a language model."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from memoryhub.auth.actions import issue_key
from memoryhub.auth.principals import Scope, command
from tests.fakes.plugin import llm, llm_server
from tests.serving import Web, serving

__all__ = ["llm", "llm_server", "web"]


@pytest.fixture
def web(transactional_db: None) -> Iterator[Web]:
    """The real web server over the test's database."""
    with serving() as web:
        yield web


@pytest.fixture
def key(transactional_db: None) -> str:
    """A key that may do everything."""
    return new_key()


def new_key(**options: object) -> str:
    by, now = command("test"), datetime.now(UTC)
    _, new = issue_key(**{"name": "test", "scopes": list(Scope), **options}, by=by, now=now)  # type: ignore[arg-type]
    return new.text
