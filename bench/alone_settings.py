"""memoryhub's settings without any job that follows an event: what a message costs by itself."""

from dataclasses import replace

from django.apps import AppConfig

from memoryhub.settings import *  # noqa: F403
from memoryhub.settings import INSTALLED_APPS as OUR_APPS

INSTALLED_APPS = [*OUR_APPS, "bench.alone_settings.WithoutTriggers"]


class WithoutTriggers(AppConfig):
    """Takes the triggers from all jobs."""

    name = __name__

    def ready(self) -> None:
        from memoryhub.jobs.registry import KINDS

        KINDS.update({name: replace(kind, after=()) for name, kind in KINDS.items()})
