"""Django's PostgreSQL backend with connections that may be limited to some agents (`memoryhub.db.reach`)."""
