"""`manage.py run_worker`: one worker, which works on jobs until it is told to stop."""

import os
from contextlib import suppress
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memoryhub.embeddings.registry import embedding_provider
from memoryhub.jobs.worker import WorkerBroken, run_worker
from memoryhub.llm.errors import ConfigurationError, ProviderError
from memoryhub.llm.tokens.counter import count_raw
from memoryhub.runtime.processes import Wakeups
from memoryhub.runtime.supervisor import PULSE


class Command(BaseCommand):
    """Work on jobs, one at a time; ends with an error where it should be started anew."""

    help = (
        "Work on background jobs, one at a time, until told to stop. `serve` starts these and keeps them alive; "
        "by hand, start as many as there shall be workers."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        """Work until a signal; the job in hand is finished, or given back."""
        _load()
        try:
            with Wakeups() as wakeups:
                run_worker(wakeups, show_life=_show_life)
        except WorkerBroken as reason:
            raise CommandError(f"The worker ends: {reason}.") from None


def _load() -> None:
    """Load what jobs need before the worker is forked, so that no job waits for it and all workers' processes share it.

    A vendor's library takes seconds to import.
    """
    with suppress(ProviderError, ConfigurationError):
        embedding_provider()
    count_raw("memoryhub")


def _show_life() -> None:
    """Tell the supervisor that we live, where there is one that listens."""
    descriptor = os.environ.get(PULSE)
    if descriptor:
        try:
            os.write(int(descriptor), b".")
        except (BlockingIOError, BrokenPipeError):
            return
