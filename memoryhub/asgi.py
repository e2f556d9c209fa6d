"""The ASGI entry point: what the web server imports."""

import gc
import os
import sys
import warnings

import django
import numpy.ma  # noqa: F401 - loaded by numpy's unique()
import psycopg_pool  # noqa: F401

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
os.environ.setdefault("MEMORYHUB_PROCESS", "web")

# Static files are sent by a synchronous iterator; Django wraps it, and warns once per process.
warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume synchronous iterators")

django.setup(set_prefix=False)

# After the settings are loaded.
from django.urls import resolve  # noqa: E402

from memoryhub.api.middleware import BodyLimit, OneHopHandler  # noqa: E402
from memoryhub.api.protocol import raise_file_limit  # noqa: E402
from memoryhub.api.request_ids import RequestIds  # noqa: E402
from memoryhub.llm.client import llm_provider  # noqa: E402
from memoryhub.llm.tokens import count_raw  # noqa: E402
from memoryhub.mcp.application import McpApplication  # noqa: E402
from memoryhub.search.bm25 import common_terms  # noqa: E402
from memoryhub.telemetry.requests import traced  # noqa: E402

raise_file_limit()
# A short request waits for the interpreter after each statement while long ones compute; by default 5 ms each time.
sys.setswitchinterval(0.0005)
application = RequestIds(traced(McpApplication(BodyLimit(OneHopHandler()))))

# Load the vocabulary (a quarter of a second), the vendor's SDK (several), every view, and what searches need now: not
# during a first request. Done before the fork, so that processes share the memory.
count_raw("memoryhub")
llm_provider()
resolve("/healthz")
common_terms()

# Objects loaded so far live as long as the process. Without the freeze, each full garbage collection traverses the
# vocabulary's 200,000 entries and delays one request by 60 ms.
gc.collect()
gc.freeze()
