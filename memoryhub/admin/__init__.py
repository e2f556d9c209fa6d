"""Admin screens of the core, and the base classes of the apps' screens. Imports no app."""

from memoryhub.admin import agents, jobs, keys, system, usage, users

__all__ = ["agents", "jobs", "keys", "system", "usage", "users"]
