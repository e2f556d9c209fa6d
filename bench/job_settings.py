"""memoryhub's settings, and jobs whose effects can be counted (`DJANGO_SETTINGS_MODULE=bench.job_settings`)."""

from memoryhub.settings import *  # noqa: F403
from memoryhub.settings import JOB_KINDS as OURS

JOB_KINDS = OURS | {
    "bench_empty": {"run": "bench.job_kinds.empty"},
    "bench_effect": {"run": "bench.job_kinds.effect", "lease_seconds": 6, "deadline_seconds": 60},
    "bench_steps": {"run": "bench.job_kinds.steps", "lease_seconds": 6, "deadline_seconds": 60},
    "bench_kill": {"run": "bench.job_kinds.kill", "lease_seconds": 6, "deadline_seconds": 60},
    "bench_breaks": {"run": "bench.job_kinds.breaks", "lease_seconds": 6, "deadline_seconds": 60},
    "bench_hangs": {"run": "bench.job_kinds.effect", "lease_seconds": 6, "deadline_seconds": 3},
    "bench_one": {"run": "bench.job_kinds.effect", "lease_seconds": 6, "deadline_seconds": 60, "at_once": 1},
}
