"""Two curators decide one queue at once: each item is decided once, by one of them (the workroom's figure)."""

import re
import threading
from collections import Counter
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse

from strength.models import Memory, MemoryRevision
from tests.conftest import client_with_key
from tests.factories.planting import API, made

ITEMS = 100
WHO = {"agent_id": "kana", "user_id": "hiroki"}
DECIDED = ("approve", "reject")
FORM = re.compile(rb'name="item" value="(?P<item>[^"]+)">.*?name="version" value="(?P<version>\d+)"', re.DOTALL)


def shown(response: Any) -> dict[str, Any] | None:
    """Read the item on the page from its HTML: a response's context mixes in what other threads render."""
    assert response.status_code == 200
    form = FORM.search(response.content)
    return {name: text.decode() for name, text in form.groupdict().items()} if form else None


def decide_all(person: User, verb: str, pages: Counter[str]) -> None:
    browser, address = Client(), reverse("review")
    browser.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
    item = shown(browser.get(address))
    while item is not None:
        pages[item["item"]] += 1
        item = shown(browser.post(address, {"verb": verb, **item}, follow=True))


@pytest.mark.django_db(transaction=True)
def test_two_curators_at_once_decide_each_item_once() -> None:
    key = client_with_key()
    for number in range(ITEMS):
        body = {**WHO, "content": f"Owns canoe number {number}", "confidence": 0.1}
        made(key.post(f"{API}/memories", body))
    assert Memory.objects.filter(status="pending").count() == ITEMS
    people = [User.objects.create_superuser(f"curator-{n}", password="a long password") for n in range(2)]
    failures: list[BaseException] = []
    pages: Counter[str] = Counter()

    def work(person: User, verb: str) -> None:
        try:
            decide_all(person, verb, pages)
        except BaseException as failure:
            failures.append(failure)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=pair) for pair in zip(people, DECIDED, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert not Memory.objects.filter(status="pending").exists()
    decisions = MemoryRevision.objects.filter(verb__in=DECIDED)
    ids = Memory.objects.values_list("pk", flat=True)
    assert Counter(decisions.values_list("memory_id", flat=True)) == Counter(ids)
    assert set(decisions.values_list("who_name", flat=True)) == {person.username for person in people}
    assert pages == Counter(f"memory:{pk}" for pk in ids)  # nobody read what the other had open
