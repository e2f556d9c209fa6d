"""The ground's screens, and what the apps' screens are built on. No app is known here."""

from memoryhub.admin import agents, jobs, keys, ledger, people, records

__all__ = ["agents", "jobs", "keys", "ledger", "people", "records"]
