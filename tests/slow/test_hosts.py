"""Two web servers on one database share the limit of a key, and each reports what is left of it (ADR 61)."""

import http.client
import time

import pytest

from memoryhub.auth.throttling import WINDOW_SECONDS
from memoryhub.runtime.postgres import EmbeddedCluster
from tests.slow.chaos.hub import Hub, folder

LIMIT = 40
BOTH_WITHIN_A_SECOND = 8


def call(hub: Hub, key: str) -> tuple[int, int]:
    """Return a call's status, and how many calls remain by its answer."""
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=30)
    connection.request("GET", "/api/v1/agents", headers={"Authorization": f"Bearer {key}"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, int(answer.headers["RateLimit"].split("r=")[1].split(";")[0])


@pytest.mark.long
@pytest.mark.slow
def test_two_hosts_share_the_limit_of_a_key() -> None:
    with folder() as path:
        database = EmbeddedCluster(path / "database", fsync=False, createdb=True)
        hubs = [Hub(path / name, database=database) for name in ("first", "second")]
        try:
            for hub in hubs:
                hub.environment |= {"MEMORYHUB_THROTTLE_PER_MINUTE": str(LIMIT), "MEMORYHUB_WEB_PROCESSES": "2"}
                hub.start("--only", "web")
            key, started, answers = hubs[0].key, time.monotonic(), []
            while time.monotonic() < started + WINDOW_SECONDS / 3:
                answers += [call(hub, key) for hub in hubs]
                time.sleep(0.25)
            let_in = sum(status == 200 for status, _left in answers)
            assert LIMIT <= let_in <= LIMIT + BOTH_WITHIN_A_SECOND
            assert {status for status, _left in answers} == {200, 429}
            assert answers[-1] == (429, 0) and answers[-2] == (429, 0), "each knows of the other's calls"
            assert len(hubs[0].rows("SELECT FROM memoryhub_callsum")) == 2, "processes of a host count together"
        finally:
            for hub in hubs:
                hub.destroy()
