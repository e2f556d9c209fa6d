"""A real OpenID provider on loopback: discovery, keys, the code flow with PKCE, ID tokens signed RS256, userinfo.

Whoever comes to its login is `server.person`, and is sent back at once. What a provider would refuse is refused: an
unknown client or redirect address, a code that was used, a verifier that does not fit. What a forger, or a provider
that is not ours, would send is said by `spoil`:

    with OidcServer() as server:
        server.person = {"sub": "1", "groups": ["team"]}
        server.spoil(nonce="another")
"""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

CLIENT_ID = "memoryhub"
CLIENT_SECRET = "a secret that only the two know, and that is long enough for HMAC"
GONE = object()
"""As a claim's value: the token comes without it."""


def new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class OidcServer:
    """Context manager around the provider; `issuer` is its address."""

    def __init__(self) -> None:
        self.person: dict[str, Any] = {"sub": "kei"}
        self.in_token: set[str] | None = None
        """The claims of the person that the ID token has; None: all. Userinfo has all of them."""
        self.key, self.key_id = new_key(), "first"
        self.asked: list[str] = []
        self.is_broken = False
        self._spoilt: dict[str, Any] = {}
        self._codes: dict[str, dict[str, str]] = {}
        self._tokens: dict[str, dict[str, Any]] = {}
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.fake = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def spoil(self, *, signed: str = "", issuer_of_discovery: str = "", **claims: Any) -> None:
        """From now on sign as said ("none", "HS256", "other key"), and put these claims into ID tokens."""
        self._spoilt = {"signed": signed, "issuer_of_discovery": issuer_of_discovery, "claims": claims}

    def rotate(self) -> None:
        """Sign by a new key from now on, and publish it alone."""
        self.key, self.key_id = new_key(), secrets.token_hex(4)

    def discovery(self) -> dict[str, Any]:
        return {
            "issuer": self._spoilt.get("issuer_of_discovery") or self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "jwks_uri": f"{self.issuer}/keys",
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        }

    def keys(self) -> dict[str, Any]:
        public = json.loads(RSAAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [{**public, "kid": self.key_id, "alg": "RS256", "use": "sig"}]}

    def authorize(self, asked: Mapping[str, str]) -> str | None:
        """Return where somebody who asks is sent; None where the request is refused."""
        is_sound = (
            asked.get("client_id") == CLIENT_ID
            and asked.get("response_type") == "code"
            and asked.get("code_challenge_method") == "S256"
            and "openid" in asked.get("scope", "").split()
            and asked.get("redirect_uri", "").endswith("/admin/login/oidc/callback/")
        )
        if not is_sound:
            return None
        code = secrets.token_urlsafe(16)
        self._codes[code] = dict(asked)
        answer = (
            {"code": code, "state": asked["state"]}
            if self.person
            else {"error": "access_denied", "state": asked["state"]}
        )
        return f"{asked['redirect_uri']}?{urlencode(answer)}"

    def exchange(self, sent: Mapping[str, str]) -> dict[str, Any] | None:
        """Return tokens for a code, once; None where the request is refused."""
        asked = self._codes.pop(sent.get("code", ""), None)
        challenge = hashlib.sha256(sent.get("code_verifier", "").encode()).digest()
        is_sound = (
            asked is not None
            and (sent.get("client_id"), sent.get("client_secret")) == (CLIENT_ID, CLIENT_SECRET)
            and sent.get("redirect_uri") == asked["redirect_uri"]
            and base64.urlsafe_b64encode(challenge).rstrip(b"=").decode() == asked["code_challenge"]
        )
        if asked is None or not is_sound:
            return None
        access = secrets.token_urlsafe(16)
        self._tokens[access] = dict(self.person)
        return {"access_token": access, "token_type": "Bearer", "id_token": self._id_token(asked["nonce"])}

    def _id_token(self, nonce: str) -> str:
        now = int(time.time())
        kept = self.person if self.in_token is None else {name: self.person[name] for name in self.in_token}
        claims = {
            **kept,
            "sub": self.person["sub"],
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 300,
            "nonce": nonce,
            **self._spoilt.get("claims", {}),
        }
        claims = {name: value for name, value in claims.items() if value is not GONE}
        headers = {"kid": self.key_id}
        match self._spoilt.get("signed"):
            case "none":
                return jwt.encode(claims, None, algorithm="none", headers=headers)
            case "HS256":
                return jwt.encode(claims, CLIENT_SECRET, algorithm="HS256", headers=headers)
            case "other key":
                return jwt.encode(claims, new_key(), algorithm="RS256", headers=headers)
        return jwt.encode(claims, self.key, algorithm="RS256", headers=headers)

    def userinfo(self, access: str) -> dict[str, Any] | None:
        return self._tokens.get(access)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    fake: OidcServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        fake, address = self.server.fake, urlsplit(self.path)
        fake.asked.append(address.path)
        asked = {name: values[0] for name, values in parse_qs(address.query).items()}
        if fake.is_broken:
            self._send(503, {})
        elif address.path == "/.well-known/openid-configuration":
            self._send(200, fake.discovery())
        elif address.path == "/keys":
            self._send(200, fake.keys())
        elif address.path == "/userinfo":
            found = fake.userinfo(self.headers.get("Authorization", "").removeprefix("Bearer "))
            self._send(401 if found is None else 200, found or {})
        else:
            goes_to = fake.authorize(asked)
            self._send(400 if goes_to is None else 302, {}, **({"Location": goes_to} if goes_to else {}))

    def do_POST(self) -> None:
        fake = self.server.fake
        fake.asked.append(self.path)
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        answer = fake.exchange({name: values[0] for name, values in parse_qs(body).items()})
        self._send(400 if answer is None else 200, answer or {"error": "invalid_grant"})

    def _send(self, code: int, content: Any, **headers: str) -> None:
        body = json.dumps(content).encode()
        self.send_response(code)
        lines = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
        for name, value in lines.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test output clean."""
