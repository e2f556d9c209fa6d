"""memoryhub's settings with short waits, so that many failures fit into a few minutes."""

import os
from dataclasses import replace

from django.apps import AppConfig

from memoryhub.settings import *  # noqa: F403
from memoryhub.settings import INSTALLED_APPS as OUR_APPS
from memoryhub.settings import LLM as OUR_LLM
from tests.slow.chaos.talking import SUMMARIZE_SECONDS

LLM = replace(OUR_LLM, attempt_timeout_seconds=float(os.environ.get("BENCH_ATTEMPT_SECONDS", "1")))
INSTALLED_APPS = [*OUR_APPS, f"{__name__}.ShortWaits"]


class ShortWaits(AppConfig):
    """Shortens the delays after turns and sessions, and the deadline of summaries."""

    name = __name__

    def ready(self) -> None:
        from memoryhub.jobs.registry import KINDS

        for name, kind in KINDS.items():
            short = [
                replace(each, delay_seconds=0.5) if each.event in ("turn", "session") else each for each in kind.after
            ]
            KINDS[name] = replace(kind, after=tuple(short))
        KINDS["summarize"] = replace(KINDS["summarize"], deadline_seconds=SUMMARIZE_SECONDS)
