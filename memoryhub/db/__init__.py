"""Access to PostgreSQL below the ORM: COPY, prepared statements, named SQL files, the connection pool."""
