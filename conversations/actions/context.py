"""Assemble a context: route, collect candidates, fit them into the limit, store the receipt (SPEC X1–X12)."""

import logging
import secrets
import time
from collections import Counter as TallyCounter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, tzinfo
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any, Final, cast

from django.conf import settings
from django.db.models import Q
from django.utils.crypto import salted_hmac
from django.utils.module_loading import import_string
from prometheus_client import Counter, Histogram

from conversations.actions.project_routing import route_to_project
from conversations.actions.receipts import store_receipt
from conversations.actions.writing import headings_language
from conversations.domain.assembly import Assembly, AssemblyRequest, assemble
from conversations.domain.content import Block
from conversations.domain.forget_requests import request_to_forget
from conversations.domain.formats import Format
from conversations.domain.layers import (
    BY_NAME,
    PROFILE,
    PROJECT,
    RECALL,
    SEMANTIC,
    SESSION_SUMMARY,
    WORKING,
    LayerResult,
)
from conversations.domain.messages import SPOKEN_ROLES, NewMessage, ShownMessage
from conversations.domain.policy import ContextPolicy
from conversations.domain.prompt import NonceCollision
from conversations.domain.routing import AUTO, UNNAMED, Routing
from conversations.models import SPOKEN, Message, Receipt, Session, answers_to_trusted
from memoryhub.auth.access import Tenant, ensure_actor
from memoryhub.auth.principals import Principal
from memoryhub.db.pool import release_connection
from memoryhub.db.prepared import PreparedQuery
from memoryhub.embeddings.spaces import text_query
from memoryhub.llm.client import counter_in_use, llm_provider
from memoryhub.llm.errors import ProviderError
from memoryhub.llm.types import ChatMessage, CompletionRequest, Operation
from memoryhub.search.query import SearchQuery
from memoryhub.search.query_text import MAX_EARLIER_TURNS
from memoryhub.telemetry.spans import span
from memoryhub.tenancy.policies import effective_policy, zone_of
from memoryhub.tenancy.policy import Trust, TrustPolicy
from memoryhub.zones import local_time

LATEST: Final = PreparedQuery(lambda: Message.objects.order_by("-seq"))

log = logging.getLogger(__name__)

# Entries of `degraded` that are not layers.
EMBEDDER: Final = "embedder"
ROUTING: Final = "routing"
RECALLED: Final = (SEMANTIC, RECALL, PROFILE)
"""Layers that a request to forget has not (SPEC C9)."""

NONCE_BYTES: Final = 8
COUNT_DEADLINE_SECONDS: Final = 10.0

LATENCY = Histogram(
    "context_assembly_latency_ms",
    "Milliseconds from the request to the assembled context.",
    buckets=(5, 10, 20, 40, 60, 80, 100, 150, 250, 500, 1000, 2500, 5000),
)
TOKENS = Histogram(
    "context_token_count",
    "Tokens of assembled contexts, as counted.",
    buckets=(100, 500, 1000, 2000, 4000, 8000, 16000, 32000, 64000, 128000, 256000),
)
LAYER_USAGE = Counter("memory_layer_usage", "Items of each layer that entered contexts.", ["layer"])
WITH_SESSION = Counter("context_with_session", "Contexts assembled for a session.")
SUMMARY_HITS = Counter("context_summary_hits", "Contexts of a session that held its summary.")


@dataclass(frozen=True, kw_only=True)
class ContextRequest:
    """A request for a message's context.

    `project` is a name, AUTO, UNNAMED, or None for no project at all. `options` are policy values for this call alone.
    `stored_message` is the message itself where it is stored already: it must not appear twice. `results` is the last
    of later messages, where the answer continues from the results of tools. With `discloses_project` the model is
    asked to name the project, or to ask for it, where the router was not sure. With `counts_exactly` the provider is
    asked for the exact size. Without `has_tools` a call of a tool is a line of text, for vendors refuse calls where no
    tool is described. One that does not remember holds the message and later ones. `instructions` are the
    client's, for this call. `shown` is the conversation as the client shows it, without the message; None where what is
    stored is the conversation. `nonce` is the block's first one where two assemblies are compared: a random one may
    take another number of tokens.
    """

    message: str
    attachments: tuple[Block, ...] = field(default=(), repr=False)
    parts: tuple[Block, ...] = field(default=(), repr=False)
    author: str = ""
    stored_message: Message | None = None
    results: Message | None = None
    session: Session | None = None
    project: str | None = UNNAMED
    perspective: str | None = None
    format: Format = "anthropic"
    counts_exactly: bool = False
    discloses_project: bool = False
    has_tools: bool = True
    remembers: bool = True
    instructions: str = field(default="", repr=False)
    shown: tuple[ShownMessage, ...] | None = field(default=None, repr=False)
    nonce: str = ""
    options: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Return the part that a receipt keeps to repeat the call; no `project` where none was named."""
        values: dict[str, Any] = {} if self.project == UNNAMED else {"project": self.project}
        values |= {"author": self.author} if self.author else {}
        values |= {} if self.remembers else {"remembers": False}
        return {**values, "perspective": self.perspective, "format": self.format, "options": dict(self.options)}


@dataclass(frozen=True, kw_only=True)
class LayerRequest:
    """The request as every layer gets it; in a dry run a layer must not record anything as used or read.

    `latest` are the session's last messages before this one, or those that the client shows, oldest first.
    `doubted` are those of untrusted writers since the first of them, where the session is trusted: they are quoted.
    """

    context: ContextRequest
    tenant: Tenant
    by: Principal
    latest: Sequence[Message | NewMessage]
    doubted: Sequence[Message]
    routing: Routing | None
    project: str | None
    query: SearchQuery
    policy: ContextPolicy
    now: datetime
    dry_run: bool

    @cached_property
    def trusts_session(self) -> bool:
        """Return whether untrusted messages of the session are quoted, and not recalled, as the session is trusted."""
        return self.context.session is not None and _is_trusted(self.context.session, self.tenant, self.by)

    @cached_property
    def zone(self) -> tzinfo:
        return zone_of(self.tenant.agent, self.tenant.actor)


@dataclass(frozen=True)
class AssembledContext:
    assembly: Assembly
    metadata: dict[str, Any]
    receipt: Receipt | None
    routing: Routing | None = None


Layer = Callable[[LayerRequest], LayerResult]


@lru_cache
def context_layers() -> tuple[Layer, ...]:
    return tuple(cast("Layer", import_string(path)) for path in settings.CONTEXT_LAYERS)


def assemble_context(
    *, tenant: Tenant, request: ContextRequest, by: Principal, now: datetime, dry_run: bool = False
) -> AssembledContext:
    """Assemble a context and store its receipt, unless the agent does not exist yet.

    A layer with an unavailable provider is left out and named in `degraded`. A dry run stores no use, no decision and
    no receipt. Raises PolicyError for options out of range, ContextTooLarge for system prompt and message alone.
    """
    policy = _policy(tenant, request)
    routing = route_to_project(
        tenant=tenant, message=request.message, project=request.project, session=request.session, dry_run=dry_run,
        by=by, now=now,
    )  # fmt: skip
    started = time.perf_counter()  # routing by a model is not part of assembly time
    latest, doubted = _latest(tenant, request, by, limit=max(MAX_EARLIER_TURNS, policy.most_turns + 1))
    turns = [(message.role, message.content) for message in reversed(latest)]
    layer_request = LayerRequest(
        context=request, tenant=tenant, by=by, latest=latest, doubted=doubted, routing=routing,
        project=_project(tenant, request, routing), policy=policy, now=now, dry_run=dry_run,
        query=text_query(request.message, turns=turns, payer=tenant.payer),
    )  # fmt: skip
    assembly = _assemble(layer_request, _offered_layers(layer_request))
    latency_ms = (time.perf_counter() - started) * 1000
    context = AssembledContext(assembly, _metadata(request, assembly, latency_ms), None, routing)
    if dry_run:
        return context
    if tenant.agent is not None:
        actor = tenant.actor or ensure_actor(tenant.agent, tenant.user_id)
        receipt = store_receipt(
            actor=actor,
            session=request.session,
            message=request.message,
            assembly=assembly,
            metadata=receipt_metadata(request, context),
            now=now,
        )
        context = replace(context, receipt=receipt)
    _observe(assembly, latency_ms=latency_ms, has_session=request.session is not None)
    return context


def receipt_metadata(request: ContextRequest, context: AssembledContext) -> dict[str, Any]:
    """Return the metadata that a receipt keeps: the answer's, and the request, so that the call can be repeated."""
    return {**context.metadata, "asked": request.as_json()}


def _policy(tenant: Tenant, request: ContextRequest) -> ContextPolicy:
    policy = effective_policy(ContextPolicy, tenant.agent, tenant.actor).validated(**request.options)
    system_prompt = policy.system_prompt or (tenant.agent.system_prompt if tenant.agent else "")
    return replace(
        policy,
        system_prompt=with_instructions(system_prompt, request.instructions),
        include_tools=policy.include_tools and request.has_tools,
    )


def _metadata(request: ContextRequest, assembly: Assembly, latency_ms: float) -> dict[str, Any]:
    """Return the figures of a context as answers and receipts hold them. Network where tokens are counted exactly."""
    metadata = {
        **asdict(assembly.metadata),
        "assembly_latency_ms": round(latency_ms, 2),
        "degraded": list(assembly.metadata.degraded),
    }
    if assembly.layer_budgets:
        metadata["layer_budgets"] = [asdict(share) for share in assembly.layer_budgets]
    if trimmed := sum(item.layer == WORKING and not item.included for item in assembly.items if request.shown):
        metadata["trimmed_messages"] = trimmed
    if what := request_to_forget(request.message):
        metadata["forget_request"] = what
    if request.counts_exactly:
        metadata["exact_tokens"] = _exact_tokens(assembly, request.format)
    return metadata


def _latest(
    tenant: Tenant, request: ContextRequest, by: Principal, *, limit: int
) -> tuple[Sequence[Message | NewMessage], list[Message]]:
    """Return the latest messages of the session, and those of untrusted writers among a trusted caller's."""
    if request.shown is not None:
        said = [each.message for each in request.shown if not each.is_current and each.message.role in SPOKEN_ROLES]
        return said[-limit:], []
    if request.session is None:
        return [], []
    spoken = Q(actor_id=tenant.actor_id, session_id=request.session.pk) & SPOKEN
    if request.stored_message is not None:
        spoken &= Q(seq__lt=request.stored_message.seq)
    rows = LATEST.rows(spoken, limit=limit)[::-1]
    if all(row.trust == Trust.TRUSTED for row in rows) or not _is_trusted(request.session, tenant, by):
        return rows, []
    trusted = LATEST.rows(spoken & Q(trust=Trust.TRUSTED), limit=limit)[::-1]
    since = Q(seq__gt=trusted[0].seq) if len(trusted) == limit else Q()
    untrusted = LATEST.rows(spoken & since & Q(trust=Trust.UNTRUSTED), limit=limit)
    answers = answers_to_trusted(tenant.actor_id, [row.pk for row in untrusted])
    turns = sorted([*trusted, *(row for row in untrusted if row.pk in answers)], key=attrgetter("seq"))
    return turns[-limit:], [row for row in untrusted[::-1] if row.pk not in answers]


def _is_trusted(session: Session, tenant: Tenant, by: Principal) -> bool:
    return by.is_trusted and not effective_policy(TrustPolicy, tenant.agent, tenant.actor).doubts(session.channel)


def _project(tenant: Tenant, request: ContextRequest, routing: Routing | None) -> str | None:
    if routing is not None:
        return routing.project
    if request.project == UNNAMED:
        return (tenant.agent and tenant.agent.current_project) or None
    return None if request.project == AUTO else request.project


def _offered_layers(request: LayerRequest) -> tuple[LayerResult, ...]:
    """Return what each layer offers, and the names of those that are missing."""
    layers = [_offer(layer, request) for layer in context_layers()]
    if request_to_forget(request.context.message):
        layers = [
            replace(layer, candidates=tuple(item for item in layer.candidates if item.layer not in RECALLED))
            for layer in layers
        ]
    if not request.context.remembers:
        layers = [
            LayerResult(tuple(item for item in layer.candidates if item.is_current or item.is_shown))
            for layer in layers
        ]
    return (*layers, LayerResult(degraded=_gaps(request, layers)))


def _offer(layer: Layer, request: LayerRequest) -> LayerResult:
    name = getattr(layer, "__name__", "layer")
    try:
        with span(f"context layer {name}") as within:
            offered = layer(request)
            within.set({"memoryhub.candidates": len(offered.candidates)})
            return offered
    except ProviderError as error:
        log.warning("context layer missing", extra={"layer": name, "code": error.code})
        return LayerResult(degraded=(name,))


def _gaps(request: LayerRequest, layers: Sequence[LayerResult]) -> tuple[str, ...]:
    offered = {candidate.layer for layer in layers for candidate in layer.candidates}
    context, policy, routing = request.context, request.policy, request.routing
    # An agent's `current_project` that the request did not name may be missing without being reported.
    is_named = routing is not None or context.project != UNNAMED
    gaps = {
        ROUTING: routing.degraded if routing else context.project == AUTO,
        EMBEDDER: request.query.degraded,
        SESSION_SUMMARY: context.session is not None
        and policy.include_session_summary
        and SESSION_SUMMARY not in offered
        and WORKING in offered,  # a new user has nothing to summarise
        PROJECT: is_named and request.project and policy.include_project and PROJECT not in offered,
    }
    return tuple(name for name, is_missing in gaps.items() if is_missing)


def _assemble(request: LayerRequest, layers: tuple[LayerResult, ...]) -> Assembly:
    context = request.context
    routing = request.routing if context.discloses_project else None
    for nonce in _nonces(request):
        try:
            return assemble(
                AssemblyRequest(
                    message=context.message,
                    attachments=context.attachments,
                    parts=context.parts,
                    nonce=nonce,
                    policy=request.policy,
                    layers=layers,
                    language=headings_language(request.tenant, context.message),
                    format=context.format,
                    project=request.project,
                    disclosed=request.project if routing and routing.discloses else None,
                    offered=routing.candidates if routing else (),
                    proposed=routing.proposed_name if routing else None,
                    author=context.author,
                    session_id=str(context.session.pk) if context.session else "",
                    now=local_time(request.now, request.zone) if request.policy.include_clock else None,
                ),
                counter_in_use().count,
            )
        except NonceCollision:
            # A text that contains this nonce cannot also contain the next 64 random bits.
            continue
    raise AssertionError("there is always another nonce")


def _nonces(request: LayerRequest) -> Iterator[str]:
    """Yield nonces without end: random ones, but first that of the session where its beginning is to be cached."""
    if request.policy.has_stable_block:
        session = request.context.session
        owner = session.pk if session else request.tenant.actor_id
        yield salted_hmac("remembered", str(owner), algorithm="sha256").hexdigest()[: 2 * NONCE_BYTES]
    if request.context.nonce:
        yield request.context.nonce
    while True:
        yield secrets.token_hex(NONCE_BYTES)


def with_instructions(system_prompt: str, instructions: str) -> str:
    """Return the operator's prompt, and after it the client's instructions for one call."""
    return "\n\n".join(part for part in (system_prompt, instructions) if part.strip())


def _exact_tokens(assembly: Assembly, context_format: Format) -> int | None:
    """Return a context's tokens as the configured provider counts them (SPEC A7).

    None where it cannot count, is unavailable, or takes contexts in another form. Network.
    """
    provider = llm_provider()
    if provider.form != context_format:
        return None
    system, turns = assembly.prompt_and_turns
    request = CompletionRequest(
        operation=Operation.CHAT,
        messages=tuple(map(ChatMessage.of, turns)),
        max_output_tokens=1,
        deadline_seconds=COUNT_DEADLINE_SECONDS,
        system=system,
    )
    try:
        with release_connection():
            return provider.count_tokens(request)
    except ProviderError as error:
        log.warning("tokens not counted", extra={"code": error.code})
        return None


def _observe(assembly: Assembly, *, latency_ms: float, has_session: bool) -> None:
    metadata = assembly.metadata
    LATENCY.observe(latency_ms)
    TOKENS.observe(metadata.total_tokens)
    entered = TallyCounter(item.layer for item in assembly.items if item.included)
    for layer in BY_NAME:
        LAYER_USAGE.labels(layer).inc(entered[layer])
    if has_session:
        WITH_SESSION.inc()
        SUMMARY_HITS.inc(int(metadata.has_session_summary))
