"""Sign the request of an OAuth client, which is passed from the OAuth server to the consent page, and verify it."""

from dataclasses import asdict, dataclass
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from django.conf import settings
from django.core import signing
from django.urls import reverse

SALT: Final = "memoryhub.oauth.consent"
MAX_AGE_SECONDS: Final = 1_800
"""Enough to log in with a second factor."""

REQUEST: Final = "request"
"""Query parameter of the page."""


@dataclass(frozen=True)
class ConsentRequest:
    """A validated authorization request; nothing of it is secret."""

    client_id: str
    redirect_uri: str
    code_challenge: str
    scopes: tuple[str, ...]
    state: str | None

    def answer_address(self, **values: str) -> str:
        """Return the client's address with the answer, the state as it was sent, and the issuer (RFC 9207)."""
        parts = urlsplit(self.redirect_uri)
        if self.state is not None:
            values["state"] = self.state
        own = parse_qsl(parts.query, keep_blank_values=True)
        return urlunsplit(parts._replace(query=urlencode([*own, *values.items(), ("iss", settings.OAUTH_URL)])))


def consent_address(asked: ConsentRequest) -> str:
    signed = signing.dumps(asdict(asked), salt=SALT, compress=True)
    return f"{reverse('oauth_consent')}?{urlencode({REQUEST: signed})}"


def read_consent_request(text: str) -> ConsentRequest | None:
    """Return a request as this server signed it, within half an hour; None for any other text."""
    try:
        values = signing.loads(text, salt=SALT, max_age=MAX_AGE_SECONDS)
    except signing.BadSignature:
        return None
    return ConsentRequest(**{**values, "scopes": tuple(values["scopes"])})
