"""Send one signed request: to an address that was resolved and checked once, within a deadline, without redirects.

The connection is pinned: it is opened to a checked address, while the certificate, SNI and `Host` keep the name. So a
name cannot lead elsewhere between check and connection.
"""

import json
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from ipaddress import ip_address
from types import TracebackType
from typing import Any, Final, Self

import httpcore2
from django.conf import settings
from standardwebhooks import Webhook

from memoryhub.telemetry.spans import span
from memoryhub.webhooks.domain.addresses import AddressRefused, check_url, may_reach

TIMEOUT_SECONDS: Final = 10.0
"""For one request from the first byte to the last, whatever the receiver does."""

MAX_ANSWER_BYTES: Final = 16_384
USER_AGENT: Final = "memoryhub-webhooks"

Resolve = Callable[[str, int], Sequence[str]]


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a name, as the system resolves it."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_kind, address in found))


@dataclass(frozen=True)
class Message:
    """A body with its id and the secrets that sign it, the newest first."""

    id: str
    body: Mapping[str, Any]
    secrets: tuple[str, ...]

    def signed(self, now: datetime) -> tuple[bytes, dict[str, str]]:
        """Return the body as bytes, and the headers of Standard Webhooks."""
        data = json.dumps(self.body, ensure_ascii=False, separators=(",", ":"))
        signatures = [Webhook(secret).sign(self.id, now.astimezone(UTC), data) for secret in self.secrets]
        headers = {
            "webhook-id": self.id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": " ".join(signatures),
        }
        return data.encode(), headers


@dataclass(frozen=True)
class Answer:
    """Status of an answer, or in `error` why there was none, and how long it took."""

    status: int | None = None
    error: str = ""
    duration_ms: int = 0


class _Deadline(httpcore2.NetworkStream):
    """A stream with one deadline for all reads and writes; httpcore's timeouts begin again with each byte."""

    def __init__(self, stream: httpcore2.NetworkStream, ends_at: Callable[[], float]) -> None:
        self._stream, self._ends_at = stream, ends_at

    def _left(self) -> float:
        left = self._ends_at() - time.monotonic()
        if left <= 0:
            raise httpcore2.ReadTimeout
        return left

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._left())

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        return _Deadline(self._stream.start_tls(ssl_context, server_hostname, self._left()), self._ends_at)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Guarded(httpcore2.NetworkBackend):
    """Resolves a name once, refuses it if one of its addresses may not be reached, and connects to a checked one."""

    def __init__(self, scheme: str, resolve: Resolve, ends_at: Callable[[], float]) -> None:
        self._scheme, self._resolve, self._ends_at = scheme, resolve, ends_at
        self._tcp = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        addresses = self._resolve(host, port)
        for address in addresses:
            if not may_reach(ip_address(address), scheme=self._scheme, networks=settings.WEBHOOK_NETWORKS):
                raise AddressRefused("It resolves to an address that may not be reached.")
        for number, address in enumerate(addresses, start=1):
            seconds = max(0.001, self._ends_at() - time.monotonic())
            try:
                stream = self._tcp.connect_tcp(address, port, seconds, None, socket_options)
            except httpcore2.ConnectError:
                if number == len(addresses):
                    raise
            else:
                return _Deadline(stream, self._ends_at)
        raise httpcore2.ConnectError


@cache  # reading the system's certificates takes 20 ms
def _certificates() -> ssl.SSLContext:
    return ssl.create_default_context()


class Sender:
    """Sends requests to one endpoint over one connection, as long as the receiver keeps it."""

    def __init__(self, url: str, *, resolve: Resolve = resolve) -> None:
        self._url, self._ends_at = url, 0.0
        scheme = url.partition(":")[0]
        self._pool = httpcore2.ConnectionPool(
            ssl_context=_certificates() if scheme == "https" else None,
            max_connections=1,
            network_backend=_Guarded(scheme, resolve, lambda: self._ends_at),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool.close()

    def _send(self, message: Message, now: datetime) -> Answer:
        began = time.monotonic()
        self._ends_at = began + TIMEOUT_SECONDS
        data, headers = message.signed(now)
        try:
            check_url(self._url, networks=settings.WEBHOOK_NETWORKS)
            answer = self._post(data, headers)
        except AddressRefused:
            answer = Answer(error="address refused")
        except (httpcore2.TimeoutException, TimeoutError):
            answer = Answer(error="timeout")
        except (httpcore2.NetworkError, OSError, UnicodeError):
            answer = Answer(error="not reached")
        except (httpcore2.ProtocolError, httpcore2.UnsupportedProtocol):
            answer = Answer(error="no HTTP answer")
        return Answer(answer.status, answer.error, int((time.monotonic() - began) * 1000))

    def send(self, message: Message, *, now: datetime) -> Answer:
        """Send a message; the answer's body is not kept. Errors are named without what a receiver wrote."""
        with span("deliver webhook", {"http.request.method": "POST"}, kind="client") as delivery:
            answer = self._send(message, now)
            if answer.error:
                delivery.fail(answer.error)
            else:
                delivery.set({"http.response.status_code": answer.status or 0})
            return answer

    def _post(self, data: bytes, headers: Mapping[str, str]) -> Answer:
        sent = [("content-type", "application/json"), ("user-agent", USER_AGENT), *headers.items()]
        with self._pool.stream("POST", self._url, headers=sent, content=data) as response:
            length = 0
            try:  # a body that was read to its end leaves the connection to the next message
                for piece in response.iter_stream():
                    length += len(piece)
                    if length > MAX_ANSWER_BYTES:
                        break
            except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError):
                pass  # the status is what counts
            return Answer(response.status)
