"""`manage.py run_worker`: run background jobs until told to stop."""

import gc
import os
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from memoryhub.embeddings.registry import embedding_provider
from memoryhub.jobs.hosts import differences
from memoryhub.jobs.worker import WorkerPool
from memoryhub.llm.errors import ProviderError
from memoryhub.llm.tokens import count_raw
from memoryhub.management import at_least_one
from memoryhub.runtime.processes import Wakeups
from memoryhub.runtime.supervisor import HEARTBEAT


class Command(BaseCommand):
    help = (
        "Run background jobs until told to stop. `serve` starts this and keeps it alive; by hand, start it on as many "
        "machines as shall work."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--workers", type=at_least_one, default=1, help="How many jobs run at a time (1).")

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.ENVIRONMENT.read_only:
            raise CommandError("With MEMORYHUB_READ_ONLY no workers run: jobs write.")
        # Load what jobs need before the workers are forked, so that no job waits for it and the processes share it: a
        # vendor's library takes seconds to import. Frozen objects are skipped by the garbage collector, which would
        # write to their pages and so copy them into each process.
        with suppress(ProviderError):
            embedding_provider()
        count_raw("memoryhub")
        for _name, sentence in differences():
            self.stderr.write(sentence)
        gc.collect()
        gc.freeze()

        def show_life() -> None:
            if descriptor := os.environ.get(HEARTBEAT):
                with suppress(BlockingIOError, BrokenPipeError):
                    os.write(int(descriptor), b".")

        with Wakeups() as wakeups:
            WorkerPool(options["workers"], wakeups, show_life).run()
