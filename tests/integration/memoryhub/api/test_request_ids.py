"""Log lines and answers have the id of their request, and who made it (SPEC O4)."""

import json
import logging
import re
from collections.abc import Iterator

import httpx2
import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from memoryhub.auth.models import ApiKey
from memoryhub.logs import SafeJsonFormatter, with_request_id
from tests.integration.conversations.test_openai import key_of
from tests.serving import Web, serving

pytestmark = pytest.mark.django_db(transaction=True)
MADE = re.compile("[0-9a-f]{32}")


class Lines(logging.Handler):
    """Collects lines as the server writes them."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(SafeJsonFormatter("%(name)s %(message)s"))
        self.addFilter(with_request_id)
        self.lines: list[dict[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(self.format(record)))


@pytest.fixture
def lines() -> Iterator[list[dict[str, str]]]:
    handler = Lines()
    logging.getLogger("memoryhub").addHandler(handler)
    yield handler.lines
    logging.getLogger("memoryhub").removeHandler(handler)


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as found:
        yield found


def test_each_line_has_the_id_and_the_key(web: Web, lines: list[dict[str, str]]) -> None:
    key = key_of(agent_ids=None)
    with httpx2.Client(base_url=web.url, headers={"Authorization": f"Bearer {key}"}) as client:
        for path in ("/api/v1/agents", "/api/v1/agents/unknown", "/api/v1/nowhere"):
            answer = client.get(path, headers={"X-Request-ID": "from-a-client:1"})
            assert answer.headers.get_list("X-Request-ID") == ["from-a-client:1"]
        made = client.get("/healthz").headers["X-Request-ID"]
        other = client.post("/mcp", content="no JSON").headers["X-Request-ID"]
    assert MADE.fullmatch(made) and MADE.fullmatch(other) and made != other
    requests = [line for line in lines if line["message"] == "request"]
    assert [line["request_id"] for line in requests] == 3 * ["from-a-client:1"]
    keys = {str(pk) for pk in ApiKey.objects.values_list("pk", flat=True)}
    assert {requests[0]["key"], requests[1]["key"]} == keys and "key" not in requests[2]
    assert {line["client"] for line in requests} == {"127.0.0.1"}


@pytest.mark.parametrize("sent", ["", "x" * 65, "a b", "é", '{"forged": 1}'])
def test_an_id_that_could_forge_a_line_is_replaced(web: Web, sent: str) -> None:
    answer = httpx2.get(f"{web.url}/healthz", headers={"X-Request-ID": sent.encode()})
    assert MADE.fullmatch(answer.headers["X-Request-ID"])


def test_a_request_has_no_id_of_the_one_before_in_its_thread(web: Web, lines: list[dict[str, str]]) -> None:
    with httpx2.Client(base_url=web.url) as client:
        client.get("/api/v1/agents", headers={"X-Request-ID": "first"})
        client.get("/api/v1/agents")
    ids = [line["request_id"] for line in lines if line["message"] == "request"]
    assert ids[0] == "first" and MADE.fullmatch(ids[1])


def test_pages_are_logged_with_their_account(caplog: pytest.LogCaptureFixture) -> None:
    person = User.objects.create_superuser("boss", password="a long password")
    browser = Client()
    browser.force_login(person)
    with caplog.at_level(logging.INFO, "memoryhub.requests"):
        browser.get(reverse("admin:index"), {"q": "what was typed"})
        Client().get(reverse("admin:login"))
        Client().get("/healthz")
    found = [vars(record) for record in caplog.records if record.name == "memoryhub.requests"]
    assert [each["route"] for each in found] == ["admin/", "admin/login/"]
    assert found[0]["account"] == str(person.pk) and "account" not in found[1]
    assert "typed" not in caplog.text


def test_calls_outside_the_server_have_no_id(client: APIClient, lines: list[dict[str, str]]) -> None:
    client.get("/api/v1/agents")
    assert "request_id" not in lines[-1]
