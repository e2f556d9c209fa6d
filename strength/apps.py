"""Strength: agent memories, search and ranking, reinforcement."""

from django.apps import AppConfig


class StrengthConfig(AppConfig):
    name = "strength"

    def ready(self) -> None:
        from conversations.admin.timeline import ENTRY_KINDS
        from memoryhub.admin import base, dashboard
        from memoryhub.api.health import DIAGNOSES
        from memoryhub.importexport.fields import LEFT_OUT
        from memoryhub.importexport.formats import EXPORT_FORMATS, IMPORT_FORMATS
        from memoryhub.jobs.backfill import SOURCES
        from strength.actions.extraction import backfill_pieces, diagnose
        from strength.actions.importexport import CHATGPT, MEM0, memories_as_csv
        from strength.admin import nights, panels, review, tiles

        SOURCES["extraction"] = backfill_pieces
        DIAGNOSES.append(diagnose)
        LEFT_OUT["strength.MemoryChange"] = "Positions in this installation's feed; an import begins its own."
        IMPORT_FORMATS.update(mem0=MEM0, chatgpt=CHATGPT)
        EXPORT_FORMATS["csv"] = memories_as_csv
        base.PAGES.extend([*review.PAGES, *nights.PAGES])
        dashboard.PANELS.append(tiles)
        ENTRY_KINDS.extend([panels.BORN, panels.USED])
