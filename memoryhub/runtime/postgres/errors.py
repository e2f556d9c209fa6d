"""What can go wrong with the embedded server, said so that the reader knows what to do."""


class PostgresError(Exception):
    """The embedded PostgreSQL cannot do what was asked; the message says why and what to do."""
