"""Requests reach checked addresses alone: names, redirects, rebinding, and within one deadline."""

import socket
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pytest_django.fixtures import Settings

from memoryhub.webhooks.actions import sending
from memoryhub.webhooks.actions.secrets import new_secret
from memoryhub.webhooks.actions.sending import Answer, Message, Resolve, Sender, resolve
from tests.fakes.webhook_receiver import WebhookReceiver
from tests.unit.memoryhub.webhooks.domain.test_addresses import INSIDE

SECRET = new_secret()


def send(url: str, resolve: Resolve = resolve) -> Answer:
    message = Message("evt_1", {"type": "webhook.test"}, (SECRET,))
    with Sender(url, resolve=resolve) as sender:
        return sender.send(message, now=datetime.now(UTC))


def to(*addresses: str) -> Resolve:
    return lambda host, port: addresses


def test_answer_of_a_receiver(receiver: WebhookReceiver) -> None:
    answer = send(receiver.url)
    assert (answer.status, answer.error) == (204, "")
    assert receiver.got[0].verify(SECRET) == {"type": "webhook.test"}


@pytest.mark.parametrize("address", INSIDE)
def test_name_that_leads_inside_is_not_reached(receiver: WebhookReceiver, settings: Settings, address: str) -> None:
    settings.WEBHOOK_NETWORKS = []
    for name in ("inside.example.org", "outside.example.org"):
        addresses = [address] if name.startswith("inside") else ["8.8.8.8", address]
        assert send(f"https://{name}:{receiver.port}/hook", to(*addresses)).error == "address refused"
    assert not receiver.got


@pytest.mark.parametrize("host", ["localhost", "2130706433", "0x7f000001", "127.1", "[::1]", "[::ffff:127.0.0.1]"])
def test_other_spellings_of_loopback_are_not_reached(receiver: WebhookReceiver, settings: Settings, host: str) -> None:
    settings.WEBHOOK_NETWORKS = [ip_network("10.0.0.0/8")]
    for scheme in ("http", "https"):
        assert send(f"{scheme}://{host}:{receiver.port}/hook").error in ("address refused", "not reached")
    assert not receiver.got


def test_redirect_is_not_followed(receiver: WebhookReceiver) -> None:
    with WebhookReceiver(headers={"Location": receiver.url}) as redirecting:
        for status in (301, 302, 303, 307, 308):
            redirecting.answer = status
            assert send(redirecting.url).status == status
    assert not receiver.got


def test_rebound_name_is_resolved_once(receiver: WebhookReceiver, settings: Settings) -> None:
    """The second answer of the name server would lead to the receiver: nothing asks for it."""
    settings.WEBHOOK_NETWORKS = [ip_network("::1/128")]
    asked: list[str] = []

    def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["::1"] if len(asked) == 1 else ["127.0.0.1"]

    assert send(f"http://rebind.example.org:{receiver.port}/hook", rebinding).error == "not reached"
    assert asked == ["rebind.example.org"]
    assert not receiver.got


def test_request_keeps_the_name(receiver: WebhookReceiver) -> None:
    assert send(f"http://hooks.example.org:{receiver.port}/a?b=c", to("127.0.0.1")).status == 204
    [got] = receiver.got
    assert (got.path, got.headers["host"]) == ("/a?b=c", f"hooks.example.org:{receiver.port}")


def test_another_address_is_tried_where_one_is_closed(receiver: WebhookReceiver) -> None:
    url = f"http://hooks.example.org:{receiver.port}/"
    assert send(url, to("::1", "127.0.0.1")).status == 204
    assert send(url, to()).error == "not reached"


def test_unknown_name_is_not_reached() -> None:
    def unknown(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror

    assert send("http://nowhere.example.org/", unknown).error == "not reached"


def test_a_connection_serves_several_messages(receiver: WebhookReceiver) -> None:
    asked: list[str] = []

    def counting(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"]

    with Sender(f"http://hooks.example.org:{receiver.port}/", resolve=counting) as sender:
        for number in range(3):
            assert sender.send(Message(f"evt_{number}", {}, (SECRET,)), now=datetime.now(UTC)).status == 204
    assert len(asked) == 1


@pytest.fixture
def dripping() -> Iterator[int]:
    """A server that sends a byte of its head a moment, without end."""
    ends = threading.Event()
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _address = server.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not ends.wait(0.02):
                try:
                    connection.sendall(b"x")
                except OSError:
                    return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield server.getsockname()[1]
    ends.set()
    thread.join(5)
    server.close()


def test_dripping_receiver_meets_the_deadline(dripping: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "TIMEOUT_SECONDS", 0.3)
    assert send(f"http://127.0.0.1:{dripping}/").error == "timeout"


def test_what_is_no_http_is_named() -> None:
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _address = server.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"SSH-2.0-server\r\n\r\n")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert send(f"http://127.0.0.1:{server.getsockname()[1]}/").error == "no HTTP answer"
    thread.join(5)
    server.close()


@pytest.fixture
def certified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A TLS server with a certificate for hooks.example.org, which the system trusts here."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hooks.example.org")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("hooks.example.org")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    path = tmp_path / "certificate.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    sending._certificates.cache_clear()
    with WebhookReceiver() as receiver:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        receiver._server.socket = context.wrap_socket(receiver._server.socket, server_side=True)
        yield receiver.port
    sending._certificates.cache_clear()


def test_certificate_must_be_that_of_the_name(certified: int) -> None:
    assert send(f"https://hooks.example.org:{certified}/", to("127.0.0.1")).status == 204
    assert send(f"https://other.example.org:{certified}/", to("127.0.0.1")).error == "not reached"


def test_system_resolves_names() -> None:
    assert all(ip_address(address).is_loopback for address in resolve("localhost", 80))


def test_time_taken_is_noted(receiver: WebhookReceiver) -> None:
    receiver.answer = lambda got: time.sleep(0.05) or 200  # type: ignore[func-returns-value]
    assert send(receiver.url).duration_ms >= 50
