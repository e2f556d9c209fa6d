"""memoryhub's settings, with a lease for compactions that a test can wait for."""

from memoryhub.settings import *  # noqa: F403
from memoryhub.settings import JOB_KINDS as OURS

JOB_KINDS = {**OURS, "compact": {**OURS["compact"], "lease_seconds": 4, "deadline_seconds": 120}}
