"""Settings that must be equal on all hosts: each worker notes those of its host, and others compare theirs."""

from collections.abc import Iterator, Mapping
from typing import Final

from django.conf import settings
from django.utils.crypto import salted_hmac

from memoryhub.jobs.models import Worker
from memoryhub.jobs.status import is_alive

SECRET_KEY: Final = "SECRET_KEY"  # noqa: S105 - the name of a setting
REPLICAS: Final = "MEMORYHUB_REPLICA_URLS"
MODEL: Final = "MEMORYHUB_LLM_PROVIDER"
CONSEQUENCES: Final[Mapping[str, str]] = {
    SECRET_KEY: "logins end between hosts, and webhook secrets and second factors cannot be read",
    "MEMORYHUB_EMBEDDING_PROVIDER": "texts of one host have vectors that the other does not search",
    MODEL: "jobs that ask a model are left to the hosts that have one; chats differ by host",
    REPLICAS: "what a host without it writes is seen late by those that read from replicas",
    "MEMORYHUB_TIME_ZONE": "days of spending and of users without a zone begin at different times",
}
"""What differs where a setting does; a name stands for the settings of its group."""


def own_settings() -> dict[str, str]:
    """Return this host's settings that others must have too; a secret as a digest that does not reveal it."""
    llm, embedding = settings.LLM, settings.EMBEDDING
    return {
        SECRET_KEY: salted_hmac("memoryhub.hosts", "settings", algorithm="sha256").hexdigest()[:16],
        "MEMORYHUB_EMBEDDING_PROVIDER": " ".join(
            str(part) for part in (embedding.provider, embedding.model, embedding.dimension) if part
        ),
        MODEL: " ".join(str(part) for part in (llm.provider, llm.model) if part),
        REPLICAS: "set" if settings.ENVIRONMENT.replica_urls else "",
        "MEMORYHUB_TIME_ZONE": settings.TIME_ZONE,
    }


def differences() -> Iterator[tuple[str, str]]:
    """Yield settings of living workers that differ from ours, by name, with hosts and what to expect."""
    ours = own_settings()
    noted = list(Worker.objects.filter(is_alive()).values_list("host", "settings"))
    for name, consequence in CONSEQUENCES.items():
        hosts = sorted({host for host, theirs in noted if theirs.get(name, ours[name]) != ours[name]})
        if hosts:
            yield name, f"{name} differs on {', '.join(hosts)}: {consequence}. Set the same on every host."
