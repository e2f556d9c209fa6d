"""Conversations: sessions, messages, recall, and the contexts made of them."""

from functools import partial

from django.apps import AppConfig


class ConversationsConfig(AppConfig):
    name = "conversations"

    def ready(self) -> None:
        from conversations.actions import exported_chats, imported_sessions
        from conversations.admin import instructions, playground, retention, sessions, talk, what_if
        from conversations.admin.timeline import CONTEXTS, ENTRY_KINDS, QUESTIONS
        from memoryhub.admin import agents, dashboard
        from memoryhub.auth.erasure import FORGETTERS
        from memoryhub.importexport.foreign.imports import UNDOERS, WRITERS
        from memoryhub.importexport.foreign.records import ImportedSession
        from memoryhub.importexport.native.exporter import EXPORT_FORMATS
        from memoryhub.unfold import PAGES

        WRITERS[ImportedSession] = imported_sessions.write_sessions
        UNDOERS[imported_sessions.SESSION_KIND] = imported_sessions.undo_sessions
        EXPORT_FORMATS.update({form: partial(exported_chats.chats_as, form) for form in exported_chats.FORMS})
        PAGES.extend([*playground.PAGES, *talk.PAGES, *instructions.PAGES, *what_if.PAGES])
        dashboard.PANELS.append(sessions.session_panel)
        agents.NOTES.append(retention.retention_note)
        FORGETTERS.append(playground.forget_runs)
        ENTRY_KINDS.extend([QUESTIONS, CONTEXTS])
