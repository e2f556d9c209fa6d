-- The application's role and database, for docker-compose.yml: the image's entry point runs this once, in an empty volume, as
-- the superuser `postgres`. The last statement removes its password, so that it can only log in within the container.
\getenv password APPLICATION_PASSWORD
CREATE ROLE memoryhub LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD :'password';
-- For people of the admin who are limited to some agents.
CREATE ROLE memoryhub_limited NOLOGIN;
GRANT memoryhub_limited TO memoryhub;
CREATE DATABASE memoryhub OWNER memoryhub;
\connect memoryhub
-- pgvector is not a trusted extension.
CREATE EXTENSION vector;
ALTER ROLE postgres PASSWORD NULL;
