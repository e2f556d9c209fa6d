"""Words for what is stored under a program's name: kinds of jobs, operations, outcomes, providers, scopes."""

from collections.abc import Mapping
from typing import Any, Final

from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryhub.llm.usage.domain import OK

JOBS: Final[Mapping[str, Any]] = {
    "calibrate_tokens": _("Calibrate token counts"),
    "cluster_tables": _("Store each actor’s texts together"),
    "compact": _("Shorten a document"),
    "curate_memories": _("Change a large selection of memories"),
    "embed": _("Embed an actor’s texts"),
    "embed_missing": _("Find texts without a vector"),
    "end_idle_sessions": _("End idle sessions"),
    "extract": _("Extract memories from a session"),
    "forget_old_calls": _("Delete old calls"),
    "forget_old_jobs": _("Delete old jobs"),
    "forget_old_receipts": _("Delete old receipts"),
    "forget_old_sessions": _("Delete expired logins"),
    "forget_old_uploads": _("Delete uploaded files that were not imported"),
    "forget_old_uses": _("Delete old reports of use"),
    "import_file": _("Import a file"),
    "note_use": _("Note which memories an answer used"),
    "purge_projects": _("Delete projects for good after a month"),
    "reflect": _("Draw reflections from episodes"),
    "remember_summary": _("Remember a session’s summary"),
    "sleep": _("Let an actor’s memory sleep"),
    "sleep_due": _("Begin the sleep of the night"),
    "summarize": _("Summarise a session"),
    "summarize_due": _("Find sessions to summarise"),
    "update_project": _("Update the documents of projects"),
    "write_profile": _("Write the profile of a user"),
    "write_profiles_due": _("Find profiles to write"),
    "vacuum": _("Tidy the database after an erasure"),
}
OPERATIONS: Final[Mapping[str, Any]] = {
    "calibrate": _("Calibration of an embedder"),
    "chat": _("Chat"),
    "compact": _("Shorten a document"),
    "embed": _("Embedding"),
    "embed_query": _("Embedding of a question"),
    "extract": _("Extraction"),
    "judge": _("Comparison of memories"),
    "route": _("Routing"),
    "summarize": _("Summary"),
}
OUTCOMES: Final[Mapping[str, Any]] = {OK: _("successful")}
PROVIDERS: Final[Mapping[str, Any]] = {
    "none": _("none configured"),
    "hashing": _("built in (compares spellings)"),
    "anthropic": "Anthropic",
    "openai": "OpenAI",
}


SCOPES: Final[Mapping[str, Any]] = {
    "read": pgettext_lazy("scope", "read"),
    "write": pgettext_lazy("scope", "write"),
    "curate": pgettext_lazy("scope", "curate"),
    "admin": pgettext_lazy("scope", "administer"),
}


def job_label(kind: str) -> Any:
    return JOBS.get(kind, kind)
