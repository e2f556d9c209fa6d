"""Django's PostgreSQL backend where `MEMORYHUB_REPLICA_URLS` is set: it routes reads, and notes positions of writes."""
