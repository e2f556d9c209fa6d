"""A real HTTP server on loopback that lists what Honcho or Hindsight keeps, in their pages.

with MemoryServer(honcho_lists(…)) as server:
    server.fails = [503, 429]  # the next requests, in order
    … server.url, server.asked
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tests.factories.memory_servers import Lists

KEY = "token of the server"


class MemoryServer:
    def __init__(self, lists: Lists) -> None:
        self.lists = lists
        self.fails: list[int] = []
        self.asked: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, method: str, address: str, headers: Any) -> tuple[int, dict[str, Any]]:
        """Return status and body, as the services' OpenAPI descriptions have them."""
        parts = urlsplit(address)
        self.asked.append(address)
        if self.fails:
            return self.fails.pop(0), {"detail": "failed"}
        if headers.get("Authorization") != f"Bearer {KEY}":
            return 401, {"detail": "Invalid token"}
        items = self.lists.get(parts.path)
        is_honcho = parts.path.startswith("/v3/")
        if items is None or method != ("POST" if is_honcho else "GET"):
            return 404, {"detail": "Not Found"}
        query = {name: int(values[0]) for name, values in parse_qs(parts.query).items()}
        if is_honcho:
            page, size = query["page"], query["size"]
            shown = items[(page - 1) * size : page * size]
            return 200, {
                "items": shown,
                "total": len(items),
                "page": page,
                "size": size,
                "pages": -(-len(items) // size),
            }
        start, limit = query["offset"], query["limit"]
        name = "banks" if parts.path.endswith("/banks") else "items"
        return 200, {name: items[start : start + limit], "total": len(items), "limit": limit, "offset": start}


def _handler(fake: MemoryServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, body = fake.answer(self.command, self.path, self.headers)
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, *_words: object) -> None:
            pass

    return Handler
