"""Summaries of sessions, and projects with their documents."""

from django.apps import AppConfig


class SummariesConfig(AppConfig):
    name = "summaries"

    def ready(self) -> None:
        from memoryhub.jobs.backfill import SOURCES
        from summaries.actions.triggers import backfill_pieces

        SOURCES["summaries"] = backfill_pieces
