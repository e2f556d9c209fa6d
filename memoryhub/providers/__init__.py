"""The only package that talks to a vendor: embeddings and language models behind one error language.

Callers import `memoryhub.providers.registry`, which gives the configured provider, and
`memoryhub.providers.errors`, whose exceptions say whether a retry helps.
"""
