"""Admin screens of the core, and the base classes of the apps' screens. Imports no app."""

from memoryhub.admin import agents, audit, grants, jobs, keys, usage, users  # noqa: F401
