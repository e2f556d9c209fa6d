"""Webhooks arrive in order, none missing, where workers are killed and the endpoint answers 500 for an hour.

An hour lasts six seconds here: pauses and the day after which an endpoint is disabled are divided by 600.
"""

import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path
from random import Random
from uuid import UUID, uuid4

import pytest
from django.db import connection
from pytest_django.fixtures import Settings

from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.principals import command
from memoryhub.jobs.executor import give_up_on
from memoryhub.runtime.postgres.cluster import ConnectionInfo
from memoryhub.tenancy.models import Agent
from memoryhub.webhooks.actions.delivery import BATCH
from memoryhub.webhooks.actions.endpoints import create_endpoint
from memoryhub.webhooks.models import ACTIVE, Endpoint
from strength.actions.memories import NewMemory, write_memory
from tests.fakes.webhook_receiver import Got, WebhookReceiver

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).resolve().parents[2]
BY = command("test")
SCALE = 600
HOUR_SECONDS = 3_600 / SCALE
EVENTS = 200
LONGEST_SECONDS = 240

WORK = """
import sys, time, django
django.setup()
from datetime import UTC, datetime
from ipaddress import ip_network
from uuid import UUID
from django.conf import settings
from memoryhub.jobs.executor import run
from memoryhub.jobs.queue import offer
from memoryhub.webhooks.actions.delivery import enqueue_due
from memoryhub.webhooks.domain import retries
settings.WEBHOOK_NETWORKS = [ip_network("127.0.0.0/8")]
retries.PAUSES = tuple(pause / int(sys.argv[2]) for pause in retries.PAUSES)
retries.GIVE_UP_AFTER /= int(sys.argv[2])
print("ready", flush=True)
while True:
    enqueue_due(datetime.now(UTC))
    for each in offer(1):
        run(each, worker=UUID(sys.argv[1]))
    time.sleep(0.02)
"""


def worker(worker_id: UUID) -> subprocess.Popen[str]:
    place = connection.settings_dict
    url = ConnectionInfo(place["HOST"], int(place["PORT"]), place["NAME"], place["USER"], place["PASSWORD"]).url()
    child = subprocess.Popen(
        [sys.executable, "-c", WORK, str(worker_id), str(SCALE)],
        cwd=ROOT, env={**os.environ, "DATABASE_URL": url}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    return child


def end(child: subprocess.Popen[str], worker_id: UUID) -> None:
    """Kill a worker, and release its jobs, as the supervisor does."""
    child.kill()
    child.wait()
    assert child.stdout is not None
    child.stdout.close()
    give_up_on(worker_id)


def remember(number: int) -> str:
    now = datetime.now(UTC)
    actor = actor_for_writing(BY, "kana", f"user-{number % 3}", now=now)
    memory, _is_new = write_memory(actor=actor, new=NewMemory(content=f"Fact {number}."), by=BY, now=now)
    return str(memory.pk)


@pytest.mark.long
def test_an_hour_of_500_and_killed_workers_lose_no_event(settings: Settings) -> None:
    settings.WEBHOOK_NETWORKS = [ip_network("127.0.0.0/8")]
    Agent.objects.create(agent_id="kana")
    chance, kills, accepted, refused = Random(11), 0, list[str](), 0
    begun = time.monotonic()

    def answer(got: Got) -> int:
        nonlocal refused
        if 2.0 <= time.monotonic() - begun < 2.0 + HOUR_SECONDS:
            refused += 1
            return 500
        accepted.append(got.body["data"]["id"])
        return 204

    with WebhookReceiver() as receiver:
        receiver.answer = answer
        create_endpoint(agent_id="kana", url=receiver.url, by=BY, now=datetime.now(UTC))
        written, worker_id = list[str](), uuid4()
        child = worker(worker_id)
        try:
            begun = time.monotonic()
            while len(set(accepted)) < EVENTS or time.monotonic() - begun < 2.0 + HOUR_SECONDS:
                assert time.monotonic() - begun < LONGEST_SECONDS, (len(written), len(set(accepted)))
                written += [remember(number) for number in range(len(written), min(len(written) + 10, EVENTS))]
                time.sleep(chance.uniform(0.1, 0.9))
                end(child, worker_id)
                kills, worker_id = kills + 1, uuid4()
                child = worker(worker_id)
        finally:
            end(child, worker_id)
    assert list(dict.fromkeys(accepted)) == written, "each event, in the order of commits"
    assert len(accepted) - EVENTS <= kills * BATCH, "only what was sent and not recorded is sent again"
    assert refused >= 3 and kills >= 5, (refused, kills)
    endpoint = Endpoint.objects.get()
    assert (endpoint.state, endpoint.failures) == (ACTIVE, 0)
