"""A primary is lost and its standby takes over (SPEC O8)."""

import sys

import pytest

from tests.slow.chaos.failover import failover

linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
pytestmark = [pytest.mark.slow, pytest.mark.long, linux_only]


def test_a_standby_takes_over_and_nothing_acknowledged_is_lost() -> None:
    assert failover(8).wrong == []
