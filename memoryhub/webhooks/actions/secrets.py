"""Secrets of endpoints: made, rotated, and encrypted in the database (`memoryhub.auth.sealed`)."""

import base64
import secrets
from datetime import datetime
from typing import Any

from memoryhub.auth.sealed import cipher
from memoryhub.webhooks.models import Endpoint

PREFIX = "whsec_"
SECRET_BYTES = 24
"""As Standard Webhooks advises: 24 to 64."""


class SecretUnreadable(Exception):
    """The secret was encrypted with another SECRET_KEY; a rotation makes a new one."""


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def sealed(secret: str) -> str:
    return str(_cipher().encrypt(secret.encode()).decode())


def valid_secrets(endpoint: Endpoint, now: datetime) -> tuple[str, ...]:
    """Return the secrets that sign now, the newest first. Raises SecretUnreadable."""
    from cryptography.fernet import InvalidToken

    stored = [endpoint.secret]
    if endpoint.old_secret and endpoint.rotating_until is not None and now < endpoint.rotating_until:
        stored.append(endpoint.old_secret)
    try:
        return tuple(_cipher().decrypt(each.encode()).decode() for each in stored)
    except InvalidToken as error:
        raise SecretUnreadable from error


def _cipher() -> Any:
    return cipher("memoryhub.webhooks", "secrets")
