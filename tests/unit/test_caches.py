"""No cache tells a key what another has asked for: each is listed here with the reason."""

import ast
from collections.abc import Iterator
from typing import Any

from django.conf import settings

from memoryhub.env import CHECKOUT
from tests.unit.patterns import PACKAGES

BUILT = "built from code, settings, files or models; no text of a call enters"
WORD = "one word or name: a hit saves microseconds, and thousands are shared"
OWN = "the key holds the caller, or what only the caller knows"
EXACT = "one whole text: a hit saves less than the time of a request varies, and a first try fills the cache itself"

CACHES = {
    "conversations.actions.context.context_layers": BUILT,
    "conversations.admin.playground.caches[CACHE]": OWN,
    "conversations.domain.budget._fit.freed": "lives as long as one context",
    "conversations.domain.content.label": WORD,
    "conversations.domain.statements.names._is_common": WORD,
    "conversations.domain.passages._substring": WORD,
    "memoryhub.admin.columns.list_column": BUILT,
    "memoryhub.admin.columns.list_filter": BUILT,
    "memoryhub.admin.stored_texts._sentences": BUILT,
    "memoryhub.api.pagination.page_of": BUILT,
    "memoryhub.api.schema._schema": BUILT,
    "memoryhub.api.views._DECLARED": BUILT,
    "memoryhub.api.views._shared_serializer": BUILT,
    "memoryhub.api.views._writer_of": BUILT,
    "memoryhub.auth.access._prepared_rows": BUILT,
    "memoryhub.auth.authentication.RECENT_KEYS": OWN,
    "memoryhub.auth.throttling.call_counter": OWN,
    "memoryhub.auth.oidc.cache": BUILT,
    "memoryhub.auth.second_factor.cache": OWN,
    "memoryhub.db.copy._copying": BUILT,
    "memoryhub.db.pool._busy": OWN,
    "memoryhub.db.pool._loop": BUILT,
    "memoryhub.db.pool._waiting": OWN,
    "memoryhub.db.pool.turns": OWN,
    "memoryhub.db.prepared.self._compiled": BUILT,
    "memoryhub.db.prepared.self._lookup": BUILT,
    "memoryhub.db.replicas._down_until": BUILT,
    "memoryhub.db.replicas._late_until": BUILT,
    "memoryhub.db.statements._changes_rows": BUILT,
    "memoryhub.db.statements._only_reads": BUILT,
    "memoryhub.embeddings.hashing._character_classes": BUILT,
    "memoryhub.embeddings.hashing._stop_word_hashes": BUILT,
    "memoryhub.embeddings.registry._embedding_provider": BUILT,
    "memoryhub.embeddings.registry._provider_for": BUILT,
    "memoryhub.embeddings.spaces.caches['query_vectors']": OWN,
    "memoryhub.importexport.foreign.imports.UNDOERS": BUILT,
    "memoryhub.importexport.native.stored_texts.screened_models": BUILT,
    "memoryhub.importexport.native.stored_texts.text_columns": BUILT,
    "memoryhub.jobs.registry.KINDS": BUILT,
    "memoryhub.llm.client.llm_provider": BUILT,
    "memoryhub.llm.prompts._template": BUILT,
    "memoryhub.llm.tokens._build": BUILT,
    "memoryhub.llm.tokens._count": EXACT,
    "memoryhub.llm.tokens._raw_counts": EXACT,
    "memoryhub.llm.tokens.is_common_word": WORD,
    "memoryhub.llm.usage.calibration.calibrated": BUILT,
    "memoryhub.mcp.calls.caches['mcp_sessions']": OWN,
    "memoryhub.search.analysis._is_content_gram": WORD,
    "memoryhub.search.analysis._terms": WORD,
    "memoryhub.search.bm25._length_share": WORD,
    "memoryhub.search.bm25.common_terms": BUILT,
    "memoryhub.search.bm25.term_id": WORD,
    "memoryhub.search.bm25.term_share": WORD,
    "memoryhub.search.query._scan": BUILT,
    "memoryhub.telemetry.spans._tracer": BUILT,
    "memoryhub.telemetry.statements._tables": BUILT,
    "memoryhub.telemetry.statements.described": "a statement, whose values are apart",
    "memoryhub.tenancy.policies._merged": "values of a policy, of which most actors have the same: microseconds",
    "memoryhub.tenancy.policies.policy_classes": BUILT,
    "memoryhub.tenancy.policy.actor_id": WORD,
    "memoryhub.unfold.address_of": BUILT,
    "memoryhub.zones.known_zones": BUILT,
    "strength.domain.duplicates._stem": WORD,
    "summaries.actions.routing.cache": OWN,
    "summaries.admin.documents._markdown": BUILT,
    "summaries.domain.routing._pattern_of": BUILT,
    "summaries.domain.word_router._terms": EXACT,
    "memoryhub.webhooks.actions.sending._certificates": BUILT,
}
"""What keeps values beyond a call, by module and function, Django's cache, or container."""


def remembered() -> Iterator[str]:
    for package in PACKAGES:
        for file in sorted((CHECKOUT / package).rglob("*.py")):
            module = ".".join(file.relative_to(CHECKOUT).with_suffix("").parts)
            if ".migrations." not in module:
                tree = ast.parse(file.read_text("utf-8"))
                yield from (f"{module}.{name}" for name in [*functions(tree, ""), *uses(tree), *containers(tree)])


def functions(tree: ast.AST, before: str) -> Iterator[str]:
    """Yield functions that `functools` caches, by decorator or call."""
    for node in ast.iter_child_nodes(tree):
        name = f"{before}{getattr(node, 'name', '')}"
        if isinstance(node, ast.FunctionDef) and any(map(is_cache, node.decorator_list)):
            yield name
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Call) and is_cache(node.func):
            yield ast.unparse(node.args[0])
        yield from functions(node, f"{name}." if hasattr(node, "name") else before)


def is_cache(node: ast.AST) -> bool:
    called = node.func if isinstance(node, ast.Call) else node
    return isinstance(called, ast.Name | ast.Attribute) and ast.unparse(called).split(".")[-1] in {"cache", "lru_cache"}


def uses(tree: ast.AST) -> set[str]:
    """Return Django's caches that a module reads or writes."""
    named = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Subscript)}
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "django.core.cache"
        for alias in node.names
    }
    return {each for each in named if each.startswith("caches[")} | imported & {"cache"}


def containers(tree: ast.Module) -> Iterator[str]:
    """Yield module-level containers that calls fill, and objects that hold such."""
    text = ast.unparse(tree)
    holders = {
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        and any(is_empty(part.value) for part in ast.walk(node) if isinstance(part, ast.Assign | ast.AnnAssign))
    }
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            name = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
            is_filled = any(filled in text for filled in (f"{name}[", f"{name}.add(", f"{name}.setdefault("))
            is_holder = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) in holders
            if is_holder or (is_filled and is_empty(node.value)):
                yield name


def is_empty(value: Any) -> bool:
    if isinstance(value, ast.Call):
        named = ast.unparse(value.func).split("[")[0]
        return named in {"dict", "set", "Counter", "defaultdict", "OrderedDict", "deque"} and not value.args
    return isinstance(value, ast.Dict) and not value.keys


def test_caches_are_listed() -> None:
    assert sorted(set(remembered()) ^ CACHES.keys()) == []


def test_djangos_caches_are_listed() -> None:
    assert set(settings.CACHES) == {"default", "playground", "query_vectors", "mcp_sessions"}
