"""Assembling a context: ask every layer, fit what they offer, keep the receipt (SPEC X1–X12)."""

import logging
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, cast

from django.conf import settings
from django.db import transaction
from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy as _
from prometheus_client import Counter, Histogram

from conversations.actions.project_routing import AUTO, UNNAMED, Routing, route_to_project
from conversations.actions.receipts import keep_receipt
from conversations.domain.assembly import Assembly, AssemblyRequest, Metadata, assemble
from conversations.domain.formats import Format, split_system
from conversations.domain.layers import SESSION_SUMMARY, LayerResult
from conversations.domain.policy import ContextPolicy
from conversations.domain.prompt import Language, NonceCollision
from conversations.models import Message, Receipt, Session
from memoryhub.auth import audit
from memoryhub.auth.domain import Principal
from memoryhub.auth.tenancy import Tenant, UnknownRow, ensure_actor
from memoryhub.db_pool import release_connection
from memoryhub.embeddings.spaces import text_query
from memoryhub.llm.client import counter_in_use, llm_provider
from memoryhub.llm.errors import ProviderError
from memoryhub.llm.types import ChatMessage, CompletionRequest, Operation
from memoryhub.search.query import SearchQuery
from memoryhub.tenancy.policies import effective_policy

log = logging.getLogger(__name__)
EMBEDDER = "embedder"
ROUTING = "routing"
PROJECT = "project"
NONCE_BYTES = 16


@dataclass(frozen=True, kw_only=True)
class ContextRequest:
    """What a client asks for. `options` are policy values for this call alone; `is_counted` asks the provider for the
    exact size.

    `answers` is the message as it is stored already, where it is: it must not stand beside itself. With `discloses`
    the model is told to name the project where the router was not sure of it. `project` is a name, AUTO, UNNAMED, or
    None for no project at all. A trial leaves no trace: nothing is counted as used, no decision and no receipt is kept.
    """

    message: str
    answers: Message | None = None
    session: Session | None = None
    project: str | None = UNNAMED
    perspective: str | None = None
    format: str = "anthropic"
    is_counted: bool = False
    discloses: bool = False
    is_trial: bool = False
    options: Mapping[str, Any]

    def as_asked(self) -> dict[str, Any]:
        """Return what a receipt keeps of it, so that the same can be asked again; no `project` where none was named."""
        named = {} if self.project == UNNAMED else {"project": self.project}
        rest = {name: getattr(self, name) for name in ("perspective", "format")}
        return {**named, **rest, "options": dict(self.options)}


@dataclass(frozen=True, kw_only=True)
class LayerRequest:
    """What every layer is told: whose context, for which message, under which policy."""

    tenant: Tenant
    by: Principal
    session: Session | None
    answers: Message | None
    project: str | None
    perspective: str | None
    query: SearchQuery
    policy: ContextPolicy
    now: datetime
    is_trial: bool = False


@dataclass(frozen=True)
class AssembledContext:
    """A context, its figures as the API shows them, and its receipt."""

    assembly: Assembly
    metadata: dict[str, Any]
    receipt: Receipt | None
    routing: Routing | None = None


Layer = Callable[[LayerRequest], LayerResult]


@lru_cache
def context_layers() -> tuple[Layer, ...]:
    """Return the layers of the settings' table, imported."""
    return tuple(cast("Layer", import_string(path)) for path in settings.CONTEXT_LAYERS)


def assemble_context(
    *, tenant: Tenant, request: ContextRequest, by: Principal, now: datetime
) -> AssembledContext:
    """Assemble a context and keep its receipt; for an agent nobody ever wrote to there is nothing to keep.

    A layer whose provider is away is missing from the result and named in `degraded`; the others
    still enter. Raises PolicyError for options out of range, ContextTooLarge where system prompt and
    message alone exceed the limit.
    """
    asked = request.as_asked()
    policy = effective_policy(ContextPolicy, tenant.agent, tenant.actor).validated(**request.options)
    routing = route_to_project(
        tenant=tenant,
        message=request.message,
        project=request.project,
        session=request.session,
        is_trial=request.is_trial,
        by=by,
        now=now,
    )
    is_unrouted = routing.degraded if routing else request.project == AUTO
    is_named = bool(routing) or request.project != UNNAMED
    if routing or is_unrouted:
        request = replace(request, project=routing.project if routing else None)
    elif not is_named:
        request = replace(request, project=(tenant.agent and tenant.agent.current_project) or None)
    started = time.perf_counter()  # a model that routes is no part of the assembly
    query = text_query(request.message, payer=tenant.payer)
    layer_request = LayerRequest(
        tenant=tenant, by=by, session=request.session, answers=request.answers, project=request.project,
        perspective=request.perspective, query=query, policy=policy, now=now, is_trial=request.is_trial,
    )  # fmt: skip
    layers = tuple(_ask(layer, layer_request) for layer in context_layers())
    if not is_named and not _has_project(layers):  # what nobody named is not missed
        request = replace(request, project=None)
    gaps = [*([ROUTING] if is_unrouted else []), *_missing(request, policy, query, layers)]
    missing = LayerResult(degraded=tuple(gaps))
    disclosed = routing.project if routing and routing.discloses and request.discloses else None
    assembly = _fit(tenant, policy, request, (*layers, missing), disclosed)
    latency_ms = (time.perf_counter() - started) * 1000
    metadata: dict[str, Any] = {**asdict(assembly.metadata), "assembly_latency_ms": round(latency_ms, 2)}
    metadata["degraded"] = list(dict.fromkeys(metadata["degraded"]))
    if assembly.layer_budgets:
        metadata["layer_budgets"] = [asdict(share) for share in assembly.layer_budgets]
    if request.is_counted:
        metadata["exact_tokens"] = exact_tokens(assembly=assembly, form=cast("Format", request.format))
    if request.is_trial:
        return AssembledContext(assembly, metadata, None, routing)
    receipt = _receipt(tenant, request, assembly, {**metadata, "asked": asked}, now)
    observe_context(assembly.metadata, latency_ms=latency_ms, has_session=request.session is not None)
    return AssembledContext(assembly, metadata, receipt, routing)


def _receipt(
    tenant: Tenant, request: ContextRequest, assembly: Assembly, metadata: dict[str, Any], now: datetime
) -> Receipt | None:
    if tenant.agent is None:
        return None
    return keep_receipt(
        actor=tenant.actor or ensure_actor(tenant.agent, tenant.user_id),
        session=request.session,
        query=request.message,
        assembly=assembly,
        metadata=metadata,
        now=now,
    )


def _ask(layer: Layer, request: LayerRequest) -> LayerResult:
    try:
        return layer(request)
    except ProviderError as error:
        name = getattr(layer, "__name__", "layer")
        log.warning("context layer missing", extra={"layer": name, "code": error.code})
        return LayerResult(degraded=(name,))


def _has_project(layers: tuple[LayerResult, ...]) -> bool:
    return any(candidate.layer == PROJECT for layer in layers for candidate in layer.candidates)


def _missing(
    request: ContextRequest, policy: ContextPolicy, query: SearchQuery, layers: tuple[LayerResult, ...]
) -> list[str]:
    offered = {candidate.layer for layer in layers for candidate in layer.candidates}
    gaps = []
    if query.degraded:
        gaps.append(EMBEDDER)
    if request.session is not None and policy.include_session_summary and SESSION_SUMMARY not in offered:
        gaps.append(SESSION_SUMMARY)
    if request.project and policy.include_project and PROJECT not in offered:
        gaps.append(PROJECT)
    return gaps


def _fit(
    tenant: Tenant,
    policy: ContextPolicy,
    request: ContextRequest,
    layers: tuple[LayerResult, ...],
    disclosed: str | None,
) -> Assembly:
    count = counter_in_use().count
    if tenant.agent and tenant.agent.system_prompt and not policy.system_prompt:
        policy = policy.validated(system_prompt=tenant.agent.system_prompt)
    while True:
        try:
            return assemble(
                AssemblyRequest(
                    message=request.message,
                    nonce=secrets.token_hex(NONCE_BYTES),
                    policy=policy,
                    layers=layers,
                    language=cast("Language", tenant.agent.language if tenant.agent else "en"),
                    format=cast("Format", request.format),
                    project=request.project,
                    disclosed=disclosed,
                ),
                count,
            )
        except NonceCollision:
            # A text that holds this very nonce cannot hold the next 128 random bits as well.
            continue


def try_context(*, tenant: Tenant, request: ContextRequest, by: Principal, now: datetime) -> AssembledContext:
    """Return the context that a call would get now: nothing is counted, decided or kept.

    What a remote embedder or a router's model costs is in the ledger all the same. Raises what `assemble_context` does.
    """
    return assemble_context(tenant=tenant, request=replace(request, is_trial=True), by=by, now=now)


@transaction.atomic
def keep_trial(
    *, tenant: Tenant, request: ContextRequest, context: AssembledContext, by: Principal, now: datetime
) -> Receipt:
    """Keep the receipt of a context that was tried, marked as that; raises UnknownRow for a user nobody knows."""
    if tenant.actor is None:
        raise UnknownRow(_("Nobody of this name is known, so there is nothing to keep the receipt with."))
    receipt = keep_receipt(
        actor=tenant.actor,
        session=request.session,
        query=request.message,
        assembly=context.assembly,
        metadata={**context.metadata, "asked": request.as_asked(), "is_trial": True},
        now=now,
    )
    audit.record(by=by, verb="keep", object_kind="receipt", object_id=receipt.pk, actor=tenant.actor, now=now)
    return receipt


COUNT_DEADLINE_SECONDS: Final = 10.0


def exact_tokens(*, assembly: Assembly, form: Format) -> int | None:
    """Return a context's tokens as the configured provider counts them.

    None where it cannot tell, is away, or takes contexts in another form.
    """
    provider = llm_provider()
    if provider.form != form:
        return None
    plain = split_system(form, assembly.system, assembly.messages)
    request = CompletionRequest(
        operation=Operation.CHAT,
        messages=tuple(ChatMessage(each["role"], each["content"]) for each in plain.turns),
        max_output_tokens=1,
        deadline_seconds=COUNT_DEADLINE_SECONDS,
        system=plain.system,
    )
    try:
        with release_connection():
            return provider.count_tokens(request)
    except ProviderError as error:
        log.warning("tokens not counted", extra={"code": error.code})
        return None


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


def observe_context(metadata: Metadata, *, latency_ms: float, has_session: bool) -> None:
    """Count one assembled context."""
    LATENCY.observe(latency_ms)
    TOKENS.observe(metadata.total_tokens)
    for layer, entered in (
        ("working", metadata.working_memory_count),
        ("semantic", metadata.semantic_memory_count),
        ("recall", metadata.recall_count),
        ("pinned", metadata.pinned_count),
        ("session_summary", int(metadata.has_session_summary)),
    ):
        LAYER_USAGE.labels(layer).inc(entered)
    if has_session:
        WITH_SESSION.inc()
        SUMMARY_HITS.inc(int(metadata.has_session_summary))
