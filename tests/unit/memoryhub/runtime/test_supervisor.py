"""The supervisor's probe and lines. Whole supervisors are in `tests/slow/test_supervisor.py`."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from memoryhub.env import CHECKOUT, read_environment
from memoryhub.runtime.supervisor import is_healthy


@pytest.mark.parametrize(
    ("allowed", "host"),
    [
        ("", "localhost"),
        ("memory.example.org,localhost", "memory.example.org"),
        (".a.org", "a.org"),
        ("*", "localhost"),
    ],
)
def test_probe_uses_a_name_that_the_web_server_admits(allowed: str, host: str) -> None:
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers["Host"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        environment = read_environment({"PORT": str(server.server_port), "ALLOWED_HOSTS": allowed})
        assert is_healthy(environment)
    assert seen == [host]


def refused(**environment: str) -> str:
    """Return what the supervisor writes about a program that there is not."""
    done = subprocess.run(
        [sys.executable, "-m", "memoryhub.runtime.supervisor", "nothing"],
        cwd=CHECKOUT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


def test_lines_are_json_where_those_of_the_server_are() -> None:
    line = json.loads(refused(MEMORYHUB_LOG_FORMAT="json"))
    assert (line["levelname"], line["name"]) == ("ERROR", "memoryhub.supervisor")
    assert line["message"] == "There is no program nothing; there are: web, worker." and line["asctime"]
    assert refused(MEMORYHUB_LOG_FORMAT="plain").startswith("memoryhub: There is no program nothing")
