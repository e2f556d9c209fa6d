"""A whole installation that talks to a model: stories from end to end."""

import sys

import pytest

from tests.slow.chaos.scenarios import scenarios

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")


@pytest.mark.long
def test_stories_hold_from_end_to_end() -> None:
    outcome = scenarios()

    assert outcome.wrong == []
    assert outcome.rounds == 6
