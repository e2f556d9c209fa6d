"""Encryption of secrets in the database, by a key derived from SECRET_KEY."""

import base64
from typing import Any

from django.utils.crypto import salted_hmac


def cipher(salt: str, purpose: str) -> Any:
    """Return the cipher of one purpose; what it encrypted, no other decrypts."""
    from cryptography.fernet import Fernet  # imported late: takes megabytes that few processes need

    return Fernet(base64.urlsafe_b64encode(salted_hmac(salt, purpose, algorithm="sha256").digest()))
