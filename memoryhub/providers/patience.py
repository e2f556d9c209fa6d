"""How often a job asks a model again whose answers cannot be used, and where it notes that.

The job's cursor counts such answers, and not its attempts: those also count a provider that was busy.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from memoryhub.jobs.context import JobContext
from memoryhub.providers.errors import BadAnswer

PATIENT_ATTEMPTS: Final = 3
"""As many attempts are made whole; after that what spoils the answers gives way to the rest."""


def is_patient(spoilt: int) -> bool:
    """Say whether another whole attempt follows the one after `spoilt` that brought nothing to use."""
    return spoilt + 1 < PATIENT_ATTEMPTS


def spoilt_answers(job: JobContext) -> int:
    """Return how many of a job's attempts ended in answers that could not be used."""
    return job.cursor if isinstance(job.cursor, int) else 0


@contextmanager
def counting_spoilt(job: JobContext) -> Iterator[None]:
    """Note with the job where an attempt ends in an answer that cannot be used."""
    spoilt = spoilt_answers(job)
    try:
        yield
    except BadAnswer:
        with job.step(cursor=spoilt + 1):
            pass
        raise
