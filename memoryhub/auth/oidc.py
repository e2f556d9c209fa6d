"""Sign-in by OpenID Connect: the code flow of django-allauth (state, PKCE, exchange), with ID tokens checked in full.

django-allauth skips the signature of a token that came straight from the provider, uses no nonce, and takes the issuer
from the provider's own discovery document. All of these are checked here. This module, with its HTTP and cryptography
libraries, is imported by the first sign-in.
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import jwt
import requests
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.internal import statekit
from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from memoryhub.auth.config import Provider
from memoryhub.db.pool import return_connection

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Asymmetric signatures only; neither HMAC with the client's secret nor "none"."""

LEEWAY_SECONDS: Final = 60
CACHE_SECONDS: Final = 600
MAX_RESPONSE_BYTES: Final = 1_000_000


class SignInFailed(Exception):
    """The provider or its answer failed validation; the message is for the log and `doctor`."""


@dataclass(frozen=True)
class Identity:
    """A person by a verified ID token; only issuer and subject identify."""

    issuer: str
    subject: str
    username: str
    email: str
    first_name: str
    last_name: str
    groups: frozenset[str]


def configured_provider() -> Provider:
    provider = settings.SIGN_IN.provider
    if provider is None:
        raise SignInFailed("no provider is configured")
    return provider


class SocialAccountAdapter(DefaultSocialAccountAdapter):
    """Adapter with the one provider from the environment instead of the database."""

    def get_provider(self, request: HttpRequest, provider: str, client_id: str | None = None) -> Any:
        config = configured_provider()
        app = SocialApp(
            provider=OpenIDConnectProvider.id,
            provider_id=config.issuer,
            name=config.name,
            client_id=config.client_id,
            secret=config.client_secret,
            settings={"oauth_pkce_enabled": True, "scope": list(config.scopes)},
        )
        return CodeFlow(request, app=app)

    def generate_state_param(self, state: dict[str, Any]) -> str:
        return secrets.token_urlsafe(32)


class CodeFlow(OpenIDConnectProvider):
    def get_oauth2_adapter(self, request: HttpRequest) -> "OIDCAdapter":
        return OIDCAdapter(request, self.app.provider_id)


class OIDCAdapter(OpenIDConnectOAuth2Adapter):
    @cached_property
    def openid_config(self) -> Mapping[str, Any]:
        return discovery_document(configured_provider().issuer)

    def get_callback_url(self, request: HttpRequest, app: Any) -> str:
        return request.build_absolute_uri(reverse("oidc_callback"))


def discovery_document(issuer: str, *, refresh: bool = False) -> dict[str, Any]:
    """Return the provider's discovery document; raises SignInFailed for another issuer or a missing endpoint."""
    document = _cached_json(f"{issuer.rstrip('/')}/.well-known/openid-configuration", refresh=refresh)
    if document.get("issuer") != issuer:
        raise SignInFailed(f"its description names the issuer {document.get('issuer')!r}, not {issuer!r}")
    required = ("authorization_endpoint", "token_endpoint", "jwks_uri")
    missing = [name for name in required if not isinstance(document.get(name), str)]
    if missing:
        raise SignInFailed(f"its description lacks {', '.join(missing)}")
    return document


def signing_keys(url: str, *, refresh: bool = False) -> list[Any]:
    try:
        return list(jwt.PyJWKSet.from_dict(_cached_json(url, refresh=refresh)).keys)
    except jwt.PyJWTError as error:
        raise SignInFailed(f"its keys cannot be read ({error})") from error


def signing_key(url: str, key_id: str | None) -> Any:
    """Return a signing key by its id, or the only one; an unknown id fetches the keys again."""
    for refresh in (False, True):
        keys = signing_keys(url, refresh=refresh)
        matches = [key for key in keys if key.key_id == key_id or (key_id is None and len(keys) == 1)]
        if matches:
            return matches[0]
    raise SignInFailed("the ID token is signed by a key that the provider does not publish")


def _cached_json(url: str, *, refresh: bool) -> dict[str, Any]:
    """Return the JSON object at a URL, cached for ten minutes unless `refresh`."""
    key = f"oidc:{hashlib.sha256(url.encode()).hexdigest()}"
    document: dict[str, Any] | None = None if refresh else cache.get(key)
    if document is None:
        document = fetch_json(url)
        cache.set(key, document, CACHE_SECONDS)
    return document


def fetch_json(url: str, **headers: str) -> dict[str, Any]:
    """Return the JSON object at a URL; raises SignInFailed, whose message has nothing of the response's body."""
    return_connection()
    try:
        with requests.get(url, headers=headers, timeout=5, stream=True) as response:
            response.raise_for_status()
            body = response.raw.read(MAX_RESPONSE_BYTES, decode_content=True)
        document = json.loads(body)
    except (requests.RequestException, OSError, ValueError) as error:
        raise SignInFailed(f"{url} does not answer as it should ({type(error).__name__})") from error
    if not isinstance(document, dict):
        raise SignInFailed(f"{url} does not answer with a JSON object")
    return document


def begin(request: HttpRequest, *, next_url: str, purpose: Mapping[str, Any]) -> HttpResponse:
    """Return the redirect to the provider, with a nonce that the ID token must contain.

    `purpose` is stored in the session and returned by `finish`.
    """
    nonce, flow = secrets.token_urlsafe(32), SocialAccountAdapter(request).get_provider(request, "")
    response: HttpResponse = flow.redirect(
        request, "login", next_url, dict(purpose), auth_params={"nonce": nonce}, nonce=nonce
    )
    if not isinstance(response, HttpResponseRedirect):
        raise SignInFailed("the provider's address cannot be used")
    return response


def finish(request: HttpRequest) -> tuple[Identity, dict[str, Any]]:
    """Return the identity after the redirect back, and the stored state; raises SignInFailed."""
    provider, flow = configured_provider(), SocialAccountAdapter(request).get_provider(request, "")
    state = statekit.unstash_state(request, state_id=request.GET.get("state", ""), provider_id=provider.issuer)
    if state is None:
        raise SignInFailed("the answer belongs to no sign-in of this browser, or came too late")
    if "error" in request.GET or "code" not in request.GET:
        raise SignInFailed("the provider did not let the person in")
    return_connection()
    endpoints = flow.get_oauth2_adapter(request)
    try:
        client = endpoints.get_client(request, flow.app)
        token_response = client.get_access_token(request.GET["code"], pkce_code_verifier=state["pkce_code_verifier"])
    except (OAuth2Error, requests.RequestException, ValueError, KeyError) as error:
        raise SignInFailed(f"the code was not exchanged ({type(error).__name__})") from error
    claims = verified_claims(
        token_response.get("id_token"), provider, nonce=state["nonce"], keys_at=endpoints.openid_config["jwks_uri"]
    )
    return _identity(claims, provider, endpoints.openid_config, token_response["access_token"]), state


def verified_claims(token: Any, provider: Provider, *, nonce: str, keys_at: str) -> dict[str, Any]:
    """Return a validated ID token's claims (OpenID Connect Core 3.1.3.7); raises SignInFailed."""
    try:
        header = jwt.get_unverified_header(token)
        if header.get("alg") not in ALGORITHMS:
            raise SignInFailed("the ID token is not signed by a key pair")
        claims: dict[str, Any] = jwt.decode(
            token,
            signing_key(keys_at, header.get("kid")),
            algorithms=list(ALGORITHMS),
            audience=provider.client_id,
            issuer=provider.issuer,
            leeway=LEEWAY_SECONDS,
            options={"require": ["iss", "sub", "aud", "exp", "iat"]},
        )
    except jwt.PyJWTError as error:
        raise SignInFailed(f"the ID token is not valid ({type(error).__name__})") from error
    audience = claims["aud"]
    if isinstance(audience, list) and len(audience) > 1 and claims.get("azp") != provider.client_id:
        raise SignInFailed("the ID token is for another client")
    if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
        raise SignInFailed("the ID token answers another sign-in")
    if not claims["sub"] or len(claims["sub"]) > 191:
        raise SignInFailed("the ID token does not say who signed in")
    return claims


def _identity(claims: dict[str, Any], provider: Provider, config: Mapping[str, Any], access: str) -> Identity:
    """Return the identity; groups come from the ID token, else from the userinfo endpoint."""
    groups = claim_at(claims, provider.groups_claim)
    if groups is None and isinstance(config.get("userinfo_endpoint"), str):
        userinfo = fetch_json(config["userinfo_endpoint"], Authorization=f"Bearer {access}")
        if userinfo.get("sub") != claims["sub"]:
            raise SignInFailed("the userinfo endpoint speaks of somebody else")
        groups, claims = claim_at(userinfo, provider.groups_claim), {**userinfo, **claims}
    names = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
    email = _text(claims, "email")
    return Identity(
        issuer=provider.issuer,
        subject=claims["sub"],
        username=_text(claims, "preferred_username") or email or claims["sub"],
        email=email,
        first_name=_text(claims, "given_name")[:150],
        last_name=_text(claims, "family_name")[:150],
        groups=frozenset(name for name in names if isinstance(name, str)),
    )


def claim_at(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its name, or by a path with dots (`realm_access.roles`)."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    return value.replace("\x00", "")[:254] if isinstance(value, str) else ""
