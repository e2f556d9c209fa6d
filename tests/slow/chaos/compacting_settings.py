"""memoryhub's settings, with a lease for compactions that a test can wait for."""

from dataclasses import replace

from django.apps import AppConfig

from memoryhub.settings import *  # noqa: F403
from memoryhub.settings import INSTALLED_APPS as OUR_APPS

INSTALLED_APPS = [*OUR_APPS, f"{__name__}.ShortLease"]


class ShortLease(AppConfig):
    name = __name__

    def ready(self) -> None:
        from memoryhub.jobs.registry import KINDS

        KINDS["compact"] = replace(KINDS["compact"], lease_seconds=4, deadline_seconds=120)
