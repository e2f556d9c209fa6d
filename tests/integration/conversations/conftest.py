"""The fakes that these tests talk to."""

from collections.abc import Iterator

import pytest

from tests.fakes.plugin import llm, llm_server
from tests.serving import Web, serving

__all__ = ["llm", "llm_server", "web"]


@pytest.fixture
def web(transactional_db: None) -> Iterator[Web]:
    """The real web server over the test's database."""
    with serving() as web:
        yield web
