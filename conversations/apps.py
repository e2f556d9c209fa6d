"""Conversations: sessions, messages, recall, and the contexts made of them."""

from django.apps import AppConfig


class ConversationsConfig(AppConfig):
    name = "conversations"

    def ready(self) -> None:
        from conversations.actions import imports
        from conversations.admin import playground, sessions
        from conversations.admin.timeline import CONTEXTS, ENTRY_KINDS, QUESTIONS
        from memoryhub.admin import dashboard
        from memoryhub.auth.erasure import FILE_SOURCES
        from memoryhub.importexport.imports import UNDOERS, WRITERS
        from memoryhub.importexport.records import ImportedSession
        from memoryhub.unfold import PAGES

        WRITERS[ImportedSession] = imports.write_sessions
        UNDOERS[imports.SESSION_KIND] = imports.undo_sessions
        PAGES.extend(playground.PAGES)
        dashboard.PANELS.append(sessions.session_panel)
        FILE_SOURCES.append(playground.cached_files)
        ENTRY_KINDS.extend([QUESTIONS, CONTEXTS])
