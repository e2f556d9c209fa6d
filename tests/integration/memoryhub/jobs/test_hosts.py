"""Settings that must be equal on all hosts are compared with those of living workers."""

from uuid import uuid4

import pytest
from django.db.models.functions import Now
from pytest_django.fixtures import Settings

from memoryhub import doctor
from memoryhub.jobs.hosts import CONSEQUENCES, differences, own_settings
from memoryhub.jobs.models import Worker
from memoryhub.jobs.status import ALIVE_WITHIN

pytestmark = pytest.mark.django_db


def worker(host: str, **values: str) -> Worker:
    return Worker.objects.create(id=uuid4(), host=host, pid=1, settings=values)


def test_equal_settings_are_no_finding() -> None:
    worker("b", **own_settings())
    worker("an older release")
    assert list(differences()) == [] and list(doctor.hosts()) == []


@pytest.mark.parametrize("name", CONSEQUENCES)
def test_each_difference_names_the_hosts_and_what_to_expect(name: str) -> None:
    for host in ("b", "b", "a"):
        worker(host, **own_settings() | {name: "another"})
    [(found, sentence)] = differences()
    assert found == name and sentence.startswith(f"{name} differs on a, b: {CONSEQUENCES[name]}")
    [finding] = doctor.hosts()
    assert finding.level is (doctor.Level.BROKEN if name == "SECRET_KEY" else doctor.Level.WARNING)


def test_lost_workers_are_not_compared() -> None:
    lost = worker("b", **own_settings() | {"SECRET_KEY": "another"})
    Worker.objects.filter(pk=lost.pk).update(seen_at=Now() - 2 * ALIVE_WITHIN)
    assert list(differences()) == []


def test_the_key_itself_is_not_noted(settings: Settings) -> None:
    settings.SECRET_KEY = "a very secret key of this installation"
    first = own_settings()["SECRET_KEY"]
    settings.SECRET_KEY = "another"
    assert first != own_settings()["SECRET_KEY"] and first not in settings.SECRET_KEY and len(first) == 16
