"""Values that processes share as files: JSON, which runs no code, and private."""

import ast
import os
import pickle
import zlib
from pathlib import Path

import pytest
from django.conf import settings

from memoryhub.env import data_folder, private_folder
from memoryhub.json_cache import JSONFileCache
from tests.unit.patterns import modules


@pytest.fixture
def cache(tmp_path: Path) -> JSONFileCache:
    return JSONFileCache(str(tmp_path / "cache"), {})


@pytest.mark.parametrize("value", [None, "y", 4.5, {"a": [1, None, "緑茶"]}, {"one": None, "two": None}])
def test_a_value_comes_back(cache: JSONFileCache, value: object) -> None:
    cache.set("key", value, None)
    assert cache.get("key", "missing") == value and cache.has_key("key")
    assert not cache.add("key", "other") and cache.touch("key", 60) and cache.get("key", "missing") == value


def test_an_expired_value_is_gone(cache: JSONFileCache, tmp_path: Path) -> None:
    cache.set("key", "value", -1)
    assert cache.get("key") is None and not cache.touch("key")
    assert not list((tmp_path / "cache").iterdir())


def test_a_pickle_is_never_read(cache: JSONFileCache, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> object:
            return Path.touch, (tmp_path / "ran",)

    cache.set("key", "value", None)
    [path] = (tmp_path / "cache").iterdir()
    for head in (pickle.dumps(None), b"inf\n"):
        path.write_bytes(head + zlib.compress(pickle.dumps(Evil())))
        assert cache.get("key") is None
    assert not (tmp_path / "ran").exists()


def test_nothing_unpickles() -> None:
    backends = {cache["BACKEND"] for cache in settings.CACHES.values()}
    assert backends <= {"django.core.cache.backends.locmem.LocMemCache", "memoryhub.json_cache.JSONFileCache"}
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
        assert not imported & {"pickle", "marshal", "shelve", "FileBasedCache"} or name == "memoryhub.json_cache", name


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
