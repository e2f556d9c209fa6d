"""A cache in files that holds JSON: who may write into its folder could run code by Django's, which unpickles."""

import json
import math
import time
import zlib
from typing import IO, Any

from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django.core.cache.backends.filebased import FileBasedCache


class JSONFileCache(FileBasedCache):
    """Django's cache in files, with values of JSON. A file that is none counts as missing."""

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        try:
            with open(self._key_to_file(key, version), "rb") as file:  # type: ignore[attr-defined]  # noqa: PTH123
                if not self._is_expired(file):
                    return json.loads(zlib.decompress(file.read()))
        except (FileNotFoundError, ValueError, zlib.error):
            pass
        return default

    def touch(self, key: str, timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        missing = object()
        if (value := self.get(key, missing, version)) is missing:
            return False
        self.set(key, value, timeout, version)
        return True

    def _write_content(self, file: IO[bytes], timeout: float | None, value: Any) -> None:
        expiry = self.get_backend_timeout(timeout)
        file.write(b"%.3f\n" % (math.inf if expiry is None else expiry))
        file.write(zlib.compress(json.dumps(value).encode()))

    def _is_expired(self, f: IO[bytes]) -> bool:
        try:
            expired = float(f.readline(40)) < time.time()
        except ValueError:
            expired = True
        if expired:
            f.close()
            self._delete(f.name)  # type: ignore[attr-defined]
        return expired
