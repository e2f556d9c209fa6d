"""Endpoints that send to receivers on loopback, which the settings allow here."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from memoryhub.auth.principals import command
from memoryhub.tenancy.models import Agent
from memoryhub.webhooks.actions.delivery import enqueue_due
from memoryhub.webhooks.actions.endpoints import create_endpoint
from memoryhub.webhooks.models import Endpoint
from tests.conftest import run_jobs
from tests.fakes.webhook_receiver import WebhookReceiver

BY = command("test")


@pytest.fixture(autouse=True)
def _loopback(settings: Settings) -> None:
    settings.WEBHOOK_NETWORKS = [ip_network("127.0.0.0/8"), ip_network("::1/128")]


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    with WebhookReceiver() as receiver:
        yield receiver


@pytest.fixture
def endpoint_to() -> Callable[..., tuple[Endpoint, str]]:
    """Return a maker of endpoints of the agent `kana`, with their secrets."""

    def make(url: str, **values: Any) -> tuple[Endpoint, str]:
        Agent.objects.get_or_create(agent_id="kana")
        return create_endpoint(**{"agent_id": "kana", "url": url, "by": BY, "now": datetime.now(UTC), **values})

    return make


def deliver_all() -> None:
    """Make a round and run its jobs until no job is left to do; a paused endpoint, or one that fails, stays behind."""
    while enqueue_due(datetime.now(UTC)) and run_jobs():
        pass
