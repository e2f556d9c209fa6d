"""A person's browser and OAuth clients for tests: log-in, consent, and the steps of the flow one by one."""

import base64
import hashlib
import re
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from django.contrib.auth.models import User
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

REDIRECT = "https://client.example/callback"
PASSWORD = "correct-horse-battery"
CHOICES = {"agent_id": "helper", "user_id": "ann", "scopes": ["read", "write"], "is_trusted": "on"}


def person(name: str = "hiroki", **values: Any) -> User:
    return User.objects.create_superuser(name, password=PASSWORD, **values)


class Browser:
    """A browser that logs in to the admin, and decides on pages of consent."""

    def __init__(self, url: str, name: str = "hiroki") -> None:
        self.http, self.name = httpx2.Client(base_url=url, timeout=60), name

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *error: object) -> None:
        self.http.close()

    def consent(self, address: str, **changes: Any) -> httpx2.Response:
        """Open a page of consent, log in where it asks, and answer; return the redirect to the client."""
        page = self.http.get(address)
        if page.status_code == 302:
            self._log_in(page.headers["location"])
            page = self.http.get(address)
        assert page.status_code == 200, page.text[:500]
        form = {**CHOICES, "new_user": "ann", "csrfmiddlewaretoken": _token(page), **changes}
        return self.http.post(address, data={name: value for name, value in form.items() if value is not None})

    def _log_in(self, address: str) -> None:
        page = self.http.get(address)
        form = {"username": self.name, "password": PASSWORD, "csrfmiddlewaretoken": _token(page)}
        assert self.http.post(address, data=form).status_code == 302


def _token(page: httpx2.Response) -> str:
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    assert found, page.text[:500]
    return found[1]


def answer(response: httpx2.Response) -> dict[str, str]:
    """Return what a redirect tells the client."""
    assert response.status_code == 302, response.text
    return {name: values[0] for name, values in parse_qs(urlsplit(response.headers["location"]).query).items()}


@dataclass
class Flow:
    """A client written by hand, so that each step can be made wrong."""

    url: str
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(40))
    client: dict[str, Any] = field(default_factory=dict)

    def register(self, **changes: Any) -> httpx2.Response:
        body = {
            "client_name": "Claude", "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none", **changes,
        }  # fmt: skip
        response = httpx2.post(f"{self.url}/register", json=body, timeout=60)
        if response.status_code == 201:
            self.client = response.json()
        return response

    @property
    def challenge(self) -> str:
        return base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).decode().rstrip("=")

    def authorize(self, **changes: Any) -> httpx2.Response:
        query = {
            "client_id": self.client["client_id"], "redirect_uri": REDIRECT, "response_type": "code", "state": "s 1&2",
            "code_challenge": self.challenge, "code_challenge_method": "S256", "scope": "read write",
            "resource": f"{self.url}/mcp", **changes,
        }  # fmt: skip
        sent = {name: value for name, value in query.items() if value is not None}
        return httpx2.get(f"{self.url}/authorize", params=sent, timeout=60)

    def code(self, browser: Browser, **changes: Any) -> str:
        page = self.authorize()
        assert page.status_code == 302, page.text
        return answer(browser.consent(page.headers["location"], **changes))["code"]

    def token(self, **changes: Any) -> httpx2.Response:
        form = {
            "client_id": self.client["client_id"], "grant_type": "authorization_code", "redirect_uri": REDIRECT,
            "code_verifier": self.verifier, **changes,
        }  # fmt: skip
        sent = {name: value for name, value in form.items() if value is not None}
        return httpx2.post(f"{self.url}/token", data=sent, timeout=60)

    def refresh(self, text: str, **changes: Any) -> httpx2.Response:
        none = {"redirect_uri": None, "code_verifier": None}
        return self.token(grant_type="refresh_token", refresh_token=text, **none, **changes)

    def connect(self, browser: Browser, **changes: Any) -> dict[str, Any]:
        """Do the whole flow; return what the token endpoint answers."""
        if not self.client:
            assert self.register().status_code == 201
        response = self.token(code=self.code(browser, **changes))
        assert response.status_code == 200, response.text
        return response.json()

    def ping(self, token: str, path: str = "/mcp") -> int:
        headers = {
            "Accept": "application/json, text/event-stream", "Content-Type": "application/json",
            "Authorization": f"Bearer {token}",
        }  # fmt: skip
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        return httpx2.post(self.url + path, json=body, headers=headers, timeout=60).status_code


class Memory(TokenStorage):
    """Keeps a client's registration and tokens for the official client."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def official_client(url: str, browser: Browser, storage: Memory, **changes: Any) -> OAuthClientProvider:
    """Return the official client's OAuth flow, with a person who logs in and consents."""
    answers: list[dict[str, str]] = []

    async def redirect(address: str) -> None:
        page = httpx2.get(address, timeout=60)
        assert page.status_code == 302, page.text
        answers.append(answer(browser.consent(page.headers["location"], **changes)))

    async def callback() -> AuthorizationCodeResult:
        got = answers.pop()
        return AuthorizationCodeResult(code=got["code"], state=got["state"], iss=got["iss"])

    metadata = OAuthClientMetadata(client_name="Official client", redirect_uris=[AnyUrl(REDIRECT)])
    return OAuthClientProvider(url, metadata, storage, redirect, callback)
