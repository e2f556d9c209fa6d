"""Count tokens without asking anybody: a shipped vocabulary, script classes, and a factor per model.

Knows nothing of Django, providers or the network, so that every floor of every app may use it.
"""

from memoryhub.tokens.counter import TokenCounter, count_raw, counter_for
from memoryhub.tokens.factors import Factors, factors_for

__all__ = ["Factors", "TokenCounter", "count_raw", "counter_for", "factors_for"]
