"""Migrations can be taken back to nothing and applied again, and then hold the models' schema."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from memoryhub.auth.principals import command
from memoryhub.importexport.demo import load_demo
from strength.models import Memory, MemoryNumbers
from tests.conftest import NOW

APPS = ("conversations", "summaries", "strength")

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def newest() -> Iterator[list[Any]]:
    """Bring the database to the newest state again, whatever happens."""
    targets = list(MigrationExecutor(connection).loader.graph.leaf_nodes())
    yield targets
    MigrationExecutor(connection).migrate(targets)


def test_migrations_go_back_to_nothing_and_forth(newest: list[Any]) -> None:
    MigrationExecutor(connection).migrate([(app, None) for app in APPS])
    left = [name for name in connection.introspection.table_names() if name.startswith(APPS)]
    assert left == []
    MigrationExecutor(connection).migrate(newest)
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)
    load_demo(by=command("demo"), now=NOW)
    assert Memory.objects.count() == MemoryNumbers.objects.count() == 72
