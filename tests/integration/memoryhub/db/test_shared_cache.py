"""Values that processes of all hosts share: in the database, as JSON, which runs no code."""

import ast
import os
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from memoryhub.db import shared_cache
from memoryhub.db.shared_cache import SharedCache, SharedValue, delete_expired
from memoryhub.env import data_folder, private_folder
from tests.unit.patterns import modules

pytestmark = pytest.mark.django_db


@pytest.fixture
def cache() -> SharedCache:
    return SharedCache("tests", {})


@pytest.mark.parametrize("value", [None, "y", 4.5, {"a": [1, None, "緑茶"]}, {"one": None, "two": None}])
def test_a_value_comes_back(cache: SharedCache, value: object) -> None:
    cache.set("key", value, None)
    assert cache.get("key", "missing") == value and cache.has_key("key")
    assert not cache.add("key", "other") and cache.touch("key", 60) and cache.get("key", "missing") == value
    assert cache.delete("key") and not cache.delete("key") and cache.get("key", "missing") == "missing"


def test_an_expired_value_is_gone_and_may_be_added_again(cache: SharedCache) -> None:
    cache.set("key", "value", -1)
    assert cache.get("key") is None and not cache.touch("key")
    assert cache.add("key", "again") and cache.get("key") == "again" and not cache.add("key", "a third")
    cache.set("other", "value", -1)
    delete_expired()
    assert list(SharedValue.objects.values_list("key", flat=True)) == [":1:key"]


def test_caches_do_not_see_each_other(cache: SharedCache) -> None:
    other = SharedCache("others", {})
    cache.set("key", 1)
    other.set("key", 2)
    cache.clear()
    assert (cache.get("key"), other.get("key")) == (None, 2)


def test_of_too_many_values_those_that_expire_first_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    small = SharedCache("small", {"OPTIONS": {"MAX_ENTRIES": 3}})
    monkeypatch.setattr(shared_cache, "CULLED_SHARE", 1.1)
    for number in range(6):
        small.set(str(number), number, 60 + number)
    assert [small.get(str(number)) for number in range(6)] == [None, None, None, 3, 4, 5]


def test_values_are_in_no_backup_of_the_servers_files() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT relpersistence FROM pg_class WHERE relname = %s", [SharedValue._meta.db_table])
        assert cursor.fetchone() == ("u",)


def test_nothing_unpickles() -> None:
    backends = {cache["BACKEND"] for cache in settings.CACHES.values()}
    assert backends <= {"django.core.cache.backends.locmem.LocMemCache", "memoryhub.db.shared_cache.SharedCache"}
    for name, module in modules().items():
        tree = ast.parse(Path(module.__file__ or os.devnull).read_text())
        imported = {
            alias.name.split(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in (
                [*node.names, ast.alias(node.module or "")] if isinstance(node, ast.ImportFrom) else node.names
            )
        }
        assert not imported & {"pickle", "marshal", "shelve", "FileBasedCache"}, name


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_folders_are_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    (tmp_path / "open").mkdir(mode=0o777)
    before = os.umask(umask)
    try:
        modes = [private_folder(tmp_path / name).stat().st_mode & 0o777 for name in ("new", "open")]
        mode = data_folder(tmp_path / "data").stat().st_mode & 0o777
    finally:
        os.umask(before)
    assert modes == [0o700, 0o700] and mode == (0o711 if os.geteuid() == 0 else 0o700)
