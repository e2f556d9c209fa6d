"""Count tokens without asking anybody: a shipped vocabulary, script classes, and a factor per model.

Knows nothing of Django, providers or the network, so that every floor of every app may use it.
"""
