"""memoryhub's settings with short waits, so that many failures fit into a few minutes."""

import os
from dataclasses import replace

from bench.talking_hub import SUMMARIZE_SECONDS
from memoryhub.settings import *  # noqa: F403
from memoryhub.settings import AFTER_SESSION as OUR_AFTER_SESSION
from memoryhub.settings import AFTER_TURN as OUR_AFTER_TURN
from memoryhub.settings import JOB_KINDS as OUR_KINDS
from memoryhub.settings import LLM as OUR_LLM

LLM = replace(OUR_LLM, attempt_timeout_seconds=float(os.environ.get("BENCH_ATTEMPT_SECONDS", "1")))
AFTER_TURN = {kind: {**line, "delay_seconds": 0.5} for kind, line in OUR_AFTER_TURN.items()}
AFTER_SESSION = {kind: {**line, "delay_seconds": 0.5} for kind, line in OUR_AFTER_SESSION.items()}
JOB_KINDS = {**OUR_KINDS, "summarize": {**OUR_KINDS["summarize"], "deadline_seconds": SUMMARIZE_SECONDS}}
