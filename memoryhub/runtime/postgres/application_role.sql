-- The application's role and database, for docker-compose.yml: the image's entry point runs this once, in an empty volume, as
-- the superuser `postgres`, whose password goes in the end: after that it logs in inside the container alone.
\getenv password APPLICATION_PASSWORD
CREATE ROLE memoryhub LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD :'password';
CREATE DATABASE memoryhub OWNER memoryhub;
\connect memoryhub
-- pgvector is no trusted extension.
CREATE EXTENSION vector;
ALTER ROLE postgres PASSWORD NULL;
