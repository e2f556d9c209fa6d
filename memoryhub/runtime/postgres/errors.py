"""Errors of the embedded server, and advice for operators where a database is away."""

import os


class PostgresError(Exception):
    """The embedded PostgreSQL cannot do what was asked; the message says why and what to do."""


def explain_outage(error: Exception) -> str:
    """Return the first line of the driver's message and what to check, for an operator at a prompt."""
    lines = str(error).strip().splitlines()
    reason = lines[0] if lines else type(error).__name__
    return f"the database does not answer as it should ({reason}). {_advice(reason)}"


def _advice(reason: str) -> str:
    if os.environ.get("DATABASE_URL"):
        return "Check DATABASE_URL, and that server."
    if "FATAL" in reason:
        return "It runs and refuses; its log is in postgres/log in the data folder."
    return "Is it running? `make run`"
