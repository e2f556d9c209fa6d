"""200 random changes: the contexts announced are those that clients get after the change (SPEC X13)."""

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from conversations.models import Receipt
from memoryhub.auth.access import actor_for_writing
from tests.integration.strength.conftest import BY, NOW
from tests.integration.strength.trying import PERSON, a_trial, announced, contexts_now, fill


@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(10))
def test_two_hundred_changes_happen_as_announced(
    seed: int, django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    dice, now = random.Random(1_000 + seed), NOW + timedelta(days=30)
    actor = actor_for_writing(BY, "kana", "hiroki", now=NOW)
    fill(actor, dice, memories=80, contexts=8, now=now - timedelta(hours=1))
    receipts = list(Receipt.objects.filter(actor=actor))
    for _ in range(20):
        trial = a_trial(actor, dice, now)
        effect = trial.announce()
        with django_capture_on_commit_callbacks(execute=True), transaction.atomic():
            trial.make()
        assert announced(effect, "after") == contexts_now(receipts, by=PERSON, now=now), trial.name
