"""The supervisor's probe of the web server. Whole supervisors are in `tests/slow/test_supervisor.py`."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from memoryhub.env import read_environment
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
