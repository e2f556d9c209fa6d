"""Call every route that reads, and print where its statements were executed: `python -m tests.slow.chaos.reading_routes`.

The settings name a primary and a replica; each call is made once what was written before it is on the replica.
"""

import json
import logging
import os
import sys
import time
from typing import Any
from urllib.parse import urlsplit

import django
from django.core.management import call_command
from psycopg import Cursor

os.environ |= {"DJANGO_SETTINGS_MODULE": "memoryhub.settings", "MEMORYHUB_PROCESS": "web", "ALLOWED_HOSTS": "*"}
django.setup()

from django.contrib.auth.models import User  # noqa: E402
from django.test import Client  # noqa: E402
from django.urls import reverse  # noqa: E402

from tests.conftest import client_with_key  # noqa: E402
from tests.factories.planting import plant_first  # noqa: E402
from tests.integration.test_read_only_database import SEARCHES  # noqa: E402
from tests.integration.test_tenants import CALLS, call  # noqa: E402

PRIMARY = urlsplit(os.environ["DATABASE_URL"]).port
PAGES = ("admin:index", "admin:strength_memory_changelist", "admin:conversations_session_changelist")
execute = Cursor.execute
executed: list[tuple[bool, str]] = []


def noted(cursor: Any, *args: Any, **options: Any) -> Any:
    if args[0]:  # empty: the pool's ping
        executed.append((cursor.connection.info.port == PRIMARY, " ".join(str(args[0]).split())[:200]))
    return execute(cursor, *args, **options)


def report(name: str, method: str, status: int) -> None:
    primary = [statement for on_primary, statement in executed if on_primary]
    on_replica = len(executed) - len(primary)
    values = {"route": name, "method": method, "status": status, "primary": primary, "replica": on_replica}
    sys.stdout.write(json.dumps(values) + "\n")


def main() -> None:
    logging.disable(logging.WARNING)
    call_command("migrate", verbosity=0)
    client, planted = client_with_key(), plant_first()
    browser = Client()
    browser.force_login(User.objects.create_superuser("boss", password="a long password"))
    Cursor.execute = noted  # type: ignore[method-assign]
    for route, method in CALLS:
        if method == "get" or route.name in SEARCHES:
            time.sleep(0.1)
            executed.clear()
            report(route.name, method, call(client, route, method, planted).status_code)
    for page in PAGES:
        time.sleep(0.1)
        executed.clear()
        report(page, "get", browser.get(reverse(page)).status_code)


if __name__ == "__main__":
    main()
