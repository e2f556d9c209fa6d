"""What Prometheus reads of assembled contexts (SPEC X11); the alert rules are in docs/reference/metrics.md."""

from prometheus_client import Counter, Histogram

from conversations.domain.assembly import Metadata

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
