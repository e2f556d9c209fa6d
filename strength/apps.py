"""Strength: agent memories, search and ranking, reinforcement."""

from django.apps import AppConfig


class StrengthConfig(AppConfig):
    name = "strength"

    def ready(self) -> None:
        from memoryhub.jobs.backfill import SOURCES
        from strength.actions.extraction import pieces

        SOURCES["extraction"] = pieces
