"""memoryhub's settings, and jobs whose effects can be counted (`DJANGO_SETTINGS_MODULE=tests.slow.chaos.job_settings`)."""

from django.apps import AppConfig

from memoryhub.settings import *  # noqa: F403
from memoryhub.settings import INSTALLED_APPS as OUR_APPS

INSTALLED_APPS = [*OUR_APPS, f"{__name__}.CountedJobs"]


class CountedJobs(AppConfig):
    """Registers the jobs."""

    name = __name__

    def ready(self) -> None:
        from tests.slow.chaos import job_kinds  # noqa: F401
