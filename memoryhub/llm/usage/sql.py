"""The ledger's own statements; parameters only."""

from typing import Final

# Whether so many samples of a model have come since its last fit; reads no more index rows than it asks about.
SAMPLES_WAIT: Final = """
SELECT count(*) >= %(enough)s FROM (
    SELECT 1 FROM memoryhub_ledgerentry
    WHERE is_sample AND provider = %(provider)s AND model = %(model)s AND created_at > COALESCE(
        (SELECT fitted_at FROM memoryhub_tokenfactors WHERE provider = %(provider)s AND model = %(model)s), '-infinity')
    LIMIT %(enough)s
) AS waiting
"""

# How far the estimates of a time lay from what was reported, as shares of it.
ESTIMATE_ERRORS: Final = """
SELECT provider, model, percentile_cont(0.5) WITHIN GROUP (ORDER BY error),
    percentile_cont(0.95) WITHIN GROUP (ORDER BY error)
FROM (
    SELECT provider, model, abs(estimated_tokens - input_tokens)::float8 / input_tokens AS error
    FROM memoryhub_ledgerentry WHERE is_sample AND created_at >= %(since)s
) AS judged
GROUP BY provider, model ORDER BY provider, model
"""
