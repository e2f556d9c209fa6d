"""What an operator is told at a prompt when the database refuses or is away; clients learn only that it is."""

from memoryhub.env import read_environment


def explain(error: Exception) -> str:
    """Return the first line of what the database, or the way to it, said, and what to look at."""
    said = str(error).strip().splitlines()
    reason = said[0] if said else type(error).__name__
    return f"the database does not answer as it should ({reason}). {_advice(reason)}"


def _advice(reason: str) -> str:
    if read_environment().database_url:
        return "Check DATABASE_URL, and that server."
    if "FATAL" in reason:
        return "It runs and refuses; its log is in postgres/log in the data folder."
    return "Is it running? `make run`"
