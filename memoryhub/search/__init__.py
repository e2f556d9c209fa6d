"""Search within one actor: text analysis, word scores, embedding spaces, fusion.

This is ground that every app may stand on: it knows actors only as a foreign key, and neither
memories, nor messages, nor an embedding provider.
"""
