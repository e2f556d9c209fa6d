"""Summaries of sessions, and projects with their documents."""

from django.apps import AppConfig


class SummariesConfig(AppConfig):
    name = "summaries"

    def ready(self) -> None:
        from conversations.actions import project_routing, sessions
        from conversations.actions.forgetting import DERIVED
        from conversations.actions.imported_sessions import UNDO_HANDLERS
        from conversations.actions.instruction_trials import TRIALS
        from conversations.admin.timeline import ENTRY_KINDS
        from memoryhub.admin import dashboard, waiting
        from memoryhub.importexport.foreign.imports import UNDOERS, WRITERS
        from memoryhub.importexport.foreign.records import ImportedDocument
        from memoryhub.importexport.native.exporter import TREE_EXPORTS
        from memoryhub.importexport.native.fields import EXCLUDED_TABLES
        from memoryhub.jobs.backfill import SOURCES
        from memoryhub.unfold import PAGES
        from summaries.actions import imported_documents as imports
        from summaries.actions.files import export_tree
        from summaries.actions.forgetting import forget_written
        from summaries.actions.instruction_trials import try_summary
        from summaries.actions.routing import route
        from summaries.actions.summaries import session_summary
        from summaries.actions.triggers import backfill_pieces
        from summaries.admin import panels

        TREE_EXPORTS.append(export_tree)
        TRIALS["summary_instructions"] = try_summary
        WRITERS[ImportedDocument] = imports.write_documents
        UNDOERS.update({imports.DOCUMENT_KIND: imports.undo_documents, imports.PROJECT_KIND: imports.undo_projects})
        UNDO_HANDLERS.append(imports.undo_summaries)
        DERIVED.append(forget_written)
        sessions.SUMMARY_SOURCES.append(session_summary)
        project_routing.ROUTERS.append(route)
        SOURCES["summaries"] = backfill_pieces
        EXCLUDED_TABLES["summaries.SummaryDraft"] = "A job's intermediate state; without it a summary is written anew."
        PAGES.extend(panels.PAGES)
        dashboard.PANELS.append(panels.tiles)
        waiting.WAITING.extend(panels.WAITING_KINDS)
        ENTRY_KINDS.extend([panels.SUMMARIES, panels.ROUTES])
