"""A cache in the database, for values that all processes of all hosts must see.

Values are JSON: Django's own cache in a table unpickles them, so who may write there could run code.
"""

import json
import random
from typing import Any, Final

from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache
from django.db import connection, models

CULLED_SHARE: Final = 0.01
"""Share of the writes that also delete what exceeds `MAX_ENTRIES`."""


class SharedValue(models.Model):
    """A value of a cache. The table is not logged: it is empty after a crash and in no backup of the server's files."""

    pk = models.CompositePrimaryKey("cache", "key")
    cache = models.CharField(max_length=40)
    key = models.CharField(max_length=250)
    value = models.JSONField(null=True)
    expires_at = models.DateTimeField()

    class Meta:
        app_label = "memoryhub"
        default_permissions = ()
        indexes = [models.Index(fields=["cache", "expires_at"], name="shared_value_expires")]

    def __str__(self) -> str:
        return f"a value of {self.cache}"


GET: Final = """
SELECT value::text FROM memoryhub_sharedvalue WHERE cache = %(cache)s AND key = %(key)s AND expires_at > now()
"""

SET: Final = """
INSERT INTO memoryhub_sharedvalue AS kept (cache, key, value, expires_at)
VALUES (%(cache)s, %(key)s, %(value)s::jsonb, coalesce(now() + make_interval(secs => %(seconds)s), 'infinity'))
ON CONFLICT (cache, key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at
"""

ADD: Final = f"{SET} WHERE kept.expires_at <= now() RETURNING TRUE"

TOUCH: Final = """
UPDATE memoryhub_sharedvalue SET expires_at = coalesce(now() + make_interval(secs => %(seconds)s), 'infinity')
WHERE cache = %(cache)s AND key = %(key)s AND expires_at > now() RETURNING TRUE
"""

DELETE: Final = "DELETE FROM memoryhub_sharedvalue WHERE cache = %(cache)s AND key = %(key)s RETURNING TRUE"

CULL: Final = """
DELETE FROM memoryhub_sharedvalue WHERE cache = %(cache)s AND expires_at <= (
    SELECT expires_at FROM memoryhub_sharedvalue WHERE cache = %(cache)s
    ORDER BY expires_at DESC OFFSET %(most)s LIMIT 1
)
"""


class SharedCache(BaseCache):
    """Django's cache interface over `SharedValue`; `LOCATION` names the cache. Writes are part of a transaction."""

    def __init__(self, name: str, params: dict[str, Any]) -> None:
        super().__init__(params)
        self.name = name
        self.most = int(params.get("OPTIONS", {}).get("MAX_ENTRIES", 300))

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        row = self._run(GET, key, version)
        return default if row is None else json.loads(row[0])

    def set(self, key: str, value: Any, timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        self._run(SET, key, version, value=json.dumps(value), seconds=self._seconds(timeout))
        if random.random() < CULLED_SHARE:  # noqa: S311
            with connection.cursor() as cursor:
                cursor.execute(CULL, {"cache": self.name, "most": self.most})

    def add(self, key: str, value: Any, timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        return self._run(ADD, key, version, value=json.dumps(value), seconds=self._seconds(timeout)) is not None

    def touch(self, key: str, timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        return self._run(TOUCH, key, version, seconds=self._seconds(timeout)) is not None

    def delete(self, key: str, version: int | None = None) -> bool:
        return self._run(DELETE, key, version) is not None

    def clear(self) -> None:
        SharedValue.objects.filter(cache=self.name).delete()

    def _run(self, statement: str, key: str, version: int | None, **values: Any) -> tuple[Any, ...] | None:
        full_key = self.make_and_validate_key(key, version=version)
        with connection.cursor() as cursor:
            cursor.execute(statement, {"cache": self.name, "key": full_key, **values})
            row: tuple[Any, ...] | None = cursor.fetchone() if cursor.description else None
        return row

    def _seconds(self, timeout: Any) -> float | None:
        """Return seconds until a value expires; None if it never does."""
        seconds = self.default_timeout if timeout is DEFAULT_TIMEOUT else timeout
        return None if seconds is None else float(seconds)


def delete_expired() -> None:
    """Delete expired values of all caches."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM memoryhub_sharedvalue WHERE expires_at <= now()")
