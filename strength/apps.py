"""Strength: agent memories, search and ranking, reinforcement."""

from django.apps import AppConfig

NOT_EXPORTED = {
    "strength.MemoryChange": "Positions in this installation's feed; an import begins its own.",
    "strength.ReviewRule": "Decisions of people with accounts here; another installation makes its own.",
    "strength.ReviewPlan": "Days and persons of the team here; another has its own.",
    "strength.ReviewComment": "Comments of people with accounts here, for each other.",
}
"""Models that exports leave out, with the reason."""


class StrengthConfig(AppConfig):
    name = "strength"

    def ready(self) -> None:
        _register_work()
        _register_imports()
        _register_screens()


def _register_work() -> None:
    from conversations.actions.forgetting import DERIVED
    from conversations.actions.instruction_trials import TRIALS
    from memoryhub.doctor import DIAGNOSES
    from memoryhub.jobs.backfill import SOURCES
    from strength.actions import distrust
    from strength.actions.drafts import DECIDERS
    from strength.actions.extraction import backfill_jobs, diagnose
    from strength.actions.forgetting import forget_memories
    from strength.actions.instruction_trials import try_extraction
    from strength.actions.review_rules import decide_by_rules

    SOURCES["extraction"] = backfill_jobs
    DIAGNOSES.extend([diagnose, distrust.diagnose])
    DECIDERS.append(decide_by_rules)
    TRIALS["extraction_instructions"] = try_extraction
    DERIVED.append(forget_memories)


def _register_imports() -> None:
    from conversations.actions.imported_sessions import UNDO_HANDLERS
    from memoryhub.importexport.foreign.imports import COST_ESTIMATES, READERS, UNDOERS, WRITERS
    from memoryhub.importexport.foreign.records import ImportedMemory
    from memoryhub.importexport.native.exporter import EXPORT_FORMATS, TREE_EXPORTS
    from memoryhub.importexport.native.fields import EXCLUDED_TABLES
    from strength.actions import extraction_costs, import_reading, importexport

    EXCLUDED_TABLES.update(NOT_EXPORTED)
    WRITERS[ImportedMemory] = importexport.write_imported
    UNDOERS[importexport.MEMORY_KIND] = importexport.undo_memories
    UNDO_HANDLERS.append(importexport.undo_extracted)
    READERS.append(import_reading)
    COST_ESTIMATES.append(extraction_costs.extraction_cost)
    TREE_EXPORTS.append(importexport.export_notes)
    EXPORT_FORMATS["csv"] = importexport.memories_as_csv


def _register_screens() -> None:
    from conversations.admin.timeline import ENTRY_KINDS
    from memoryhub.admin import agents, dashboard, waiting
    from memoryhub.admin.imports import CONVERSATIONS
    from memoryhub.unfold import PAGES
    from strength.admin import expectations, imported_conversations, learnt, news, nights, panels, review, review_alike
    from strength.admin.review_team import second_reviewer_note

    PAGES.extend([*news.PAGES, *review.PAGES, *review_alike.PAGES, *nights.PAGES])
    PAGES.extend([*expectations.PAGES, *learnt.PAGES])
    CONVERSATIONS.append(imported_conversations.conversations_of)
    agents.NOTES.append(second_reviewer_note)
    dashboard.REVIEW_COUNTS.append(review.count_for)
    dashboard.PANELS.append(panels.memory_panel)
    waiting.WAITING.extend(panels.WAITING_KINDS)
    ENTRY_KINDS.extend([panels.CREATED_ENTRIES, panels.USED_ENTRIES])
