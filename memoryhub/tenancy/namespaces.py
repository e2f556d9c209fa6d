"""Kinds of memories, their namespaces, and the retrieval configuration that selects them: pure rules (SPEC L2, M7).

Here and not with the memories, because agents have a retrieval configuration.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from memoryhub.errors import DomainError, Message, _, format_lazy
from memoryhub.tenancy.policy import number, one_of, whole


class Kind(StrEnum):
    """Kind of a memory (SPEC M1)."""

    FACT = "fact"
    PREFERENCE = "preference"
    SUMMARY = "summary"
    EPISODE = "episode"
    REFLECTION = "reflection"
    LEARNING = "learning"
    DECISION = "decision"
    NOTE = "note"

    @property
    def plural(self) -> str:
        return "summaries" if self is Kind.SUMMARY else f"{self}s"


KINDS = tuple(Kind)

ACTOR_PLACEHOLDER = "{actorId}"
# An index entry has 2,704 bytes at most; a user id of 255 Japanese characters takes 2,295 when encoded.
MAX_NAMESPACE_LENGTH = 2_500
MAX_OWNER_LENGTH = 2_300
MAX_NAMESPACES = 20
DEFAULT_TOP_K = 10
DEFAULT_RELEVANCE = 0.0
ALL_NAMESPACES = "/"
"""As a prefix: all of an actor."""
_NAMESPACE = re.compile(r"/(?:[^/\s]+/)+\Z")
_PATTERN = re.compile(r"\{[^{}/]*\}|\*")

BY_RELEVANCE = "relevance"
BY_STRENGTH = "strength"
RETRIEVAL_VALUES = {
    "top_k": whole(1, 200),
    "relevance_score": number(0, 1),
    "order": one_of((BY_RELEVANCE, BY_STRENGTH)),
}


def default_namespace(kind: Kind) -> str:
    return f"/{Kind(kind).plural}/{ACTOR_PLACEHOLDER}/"


DEFAULT_RETRIEVAL: Mapping[str, Mapping[str, float | str]] = {
    default_namespace(kind): {"top_k": top_k, "relevance_score": 0.3}
    for kind, top_k in {
        Kind.PREFERENCE: 5,
        Kind.FACT: 10,
        Kind.SUMMARY: 3,
        Kind.EPISODE: 3,
        Kind.REFLECTION: 3,
        Kind.LEARNING: 3,
        Kind.DECISION: 3,
        Kind.NOTE: 5,
    }.items()
}


class NamespaceError(DomainError, ValueError):
    """An invalid namespace or retrieval configuration; `field` is the request's field."""

    def __init__(self, field: str, message: Message, **values: object) -> None:
        self.field = field
        super().__init__(format_lazy(message, **values))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class NamespaceQuery:
    """Query of a prefix: the best by relevance, at least `relevance_score`, or by strength."""

    prefix: str
    top_k: int
    relevance_score: float
    order: str = BY_RELEVANCE


def namespace_owner(agent_id: str, user_id: str) -> str:
    """Return the value of `{actorId}`: the user, else the agent, percent-encoded."""
    return quote(user_id or agent_id, safe="")


def expand_prefix(prefix: str, *, agent_id: str, user_id: str, field: str = "namespace") -> str:
    """Return a prefix of namespaces with `{actorId}` filled in; `/` is all of them. Raises NamespaceError."""
    if prefix == ALL_NAMESPACES:
        return prefix
    return expand_namespace(prefix, agent_id=agent_id, user_id=user_id, field=field)


def expand_namespace(namespace: str, *, agent_id: str, user_id: str, field: str = "namespace") -> str:
    """Return a namespace (or prefix) with `{actorId}` filled in.

    Raises NamespaceError for other placeholders and wildcards, which would match nothing; for one without a trailing
    slash, as `/facts/ann` would also match `/facts/anna/`; and if the expanded one is too long.
    """
    expanded = namespace.replace(ACTOR_PLACEHOLDER, namespace_owner(agent_id, user_id))
    if match := _PATTERN.search(expanded):
        message = _("{pattern} has no meaning here: only {actor} is filled in, and a prefix is matched as it is.")
        raise NamespaceError(field, message, pattern=match[0][:50], actor=ACTOR_PLACEHOLDER)
    if not _NAMESPACE.match(expanded):
        message = _(
            "A namespace is a path such as /facts/{actor}/: it starts and ends with a slash, and has no white space."
        )
        raise NamespaceError(field, message, actor=ACTOR_PLACEHOLDER)
    if len(expanded) > MAX_NAMESPACE_LENGTH:
        message = _("A namespace has at most {most} characters once {actor} is filled in.")
        raise NamespaceError(field, message, most=MAX_NAMESPACE_LENGTH, actor=ACTOR_PLACEHOLDER)
    return expanded


def namespace_queries(config: Any, *, agent_id: str, user_id: str, field: str = "config") -> list[NamespaceQuery]:
    """Return a retrieval configuration with its prefixes filled in; raises NamespaceError where it is wrong."""
    if not isinstance(config, Mapping) or not 0 < len(config) <= MAX_NAMESPACES:
        raise NamespaceError(field, _("must name 1 to {most} namespace prefixes."), most=MAX_NAMESPACES)
    queries = []
    for prefix, options in config.items():
        name = repr(prefix[:100])
        if not isinstance(options, Mapping) or not options.keys() <= RETRIEVAL_VALUES.keys():
            message = _("{name} must be an object with top_k, relevance_score and order.")
            raise NamespaceError(field, message, name=name)
        defaults = {"top_k": DEFAULT_TOP_K, "relevance_score": DEFAULT_RELEVANCE, "order": BY_RELEVANCE}
        values = {**defaults, **options}
        for key, check in RETRIEVAL_VALUES.items():
            if not check.holds(values[key]):
                message = _("{name}: {key} must be {allowed}.")
                raise NamespaceError(field, message, name=name, key=key, allowed=check.allowed)
        expanded = expand_prefix(prefix, agent_id=agent_id, user_id=user_id, field=field)
        if values["order"] == BY_STRENGTH and values["relevance_score"]:
            message = _("{name}: by strength nothing is compared with the query; leave relevance_score out.")
            raise NamespaceError(field, message, name=name)
        queries.append(NamespaceQuery(expanded, values["top_k"], float(values["relevance_score"]), values["order"]))
    return queries
