"""Mail server, from the environment.

No Django here: `settings.py` keeps the result of `MailConfig.from_env(os.environ)` as Django's own settings.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from memoryhub.env import EnvironmentProblem

URL: Final = "MEMORYHUB_EMAIL_URL"
SENDER: Final = "MEMORYHUB_EMAIL_FROM"
PORTS: Final = {"smtp": 25, "smtp+tls": 587, "smtps": 465}
"""Ports by scheme: without encryption, with STARTTLS, and with TLS from the beginning."""

TIMEOUT_SECONDS: Final = 30
EXAMPLE: Final = "smtp+tls://name:password@mail.example.org:587"


@dataclass(frozen=True, slots=True)
class MailConfig:
    """A mail server and the address of the sender; without a host no mail is sent."""

    host: str = ""
    port: int = 0
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    scheme: str = "smtp"
    sender: str = ""

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> "MailConfig":
        """Return the configuration; raises `EnvironmentProblem` naming the variable that is wrong."""
        url, sender = (environ.get(name, "").strip() for name in (URL, SENDER))
        if not url:
            return cls()
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            parts, host, port = urlsplit(""), "", None
        # The value may hold a password, so the message does not repeat it.
        if not host or parts.scheme not in PORTS or parts.path.strip("/") or parts.query or parts.fragment:
            raise EnvironmentProblem(f"{URL} must begin with {', '.join(PORTS)} and name a host, as in {EXAMPLE}.")
        user = unquote(parts.username or "")
        sender = sender or (user if "@" in user else f"memoryhub@{host}")
        if "@" not in sender or any(ord(char) < 32 for char in sender):
            raise EnvironmentProblem(f"{SENDER} must be a mail address, such as memoryhub@example.org.")
        return cls(host, port or PORTS[parts.scheme], user, unquote(parts.password or ""), parts.scheme, sender)
