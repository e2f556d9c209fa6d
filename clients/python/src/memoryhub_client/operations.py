"""Every operation of the API, once for both clients: a method builds a `Call`, its client sends it.

Methods are named after the API's operation ids, fields after the API's fields. On `Memoryhub` they return the answer,
on `AsyncMemoryhub` an awaitable of it; lists are iterators over all their pages.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, Unpack, overload

from memoryhub_client import types as t
from memoryhub_client.transport import Call, Result, path

if TYPE_CHECKING:
    from memoryhub_client.client import AsyncMemoryhub, Memoryhub

P = ParamSpec("P")
Row = TypeVar("Row")
_Values = Mapping[str, Any]


class operation(Generic[P, Result]):  # noqa: N801  (a decorator)
    """Descriptor: a method that builds a call becomes one that sends it, by the client's own way."""

    def __init__(self, build: Callable[Concatenate[Any, P], Call[Result]]) -> None:
        self.build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, client: Memoryhub, owner: object = None) -> Callable[P, Result]: ...
    @overload
    def __get__(self, client: AsyncMemoryhub, owner: object = None) -> Callable[P, Awaitable[Result]]: ...
    def __get__(self, client: Any, owner: object = None) -> Any:
        if client is None:
            return self
        return update_wrapper(lambda *args, **values: client._send(self.build(client, *args, **values)), self.build)


class listing(Generic[P, Row]):  # noqa: N801
    """Descriptor: like `operation`, for lists that come in pages."""

    def __init__(self, build: Callable[Concatenate[Any, P], Call[Row]]) -> None:
        self.build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, client: Memoryhub, owner: object = None) -> Callable[P, Iterator[Row]]: ...
    @overload
    def __get__(self, client: AsyncMemoryhub, owner: object = None) -> Callable[P, AsyncIterator[Row]]: ...
    def __get__(self, client: Any, owner: object = None) -> Any:
        if client is None:
            return self
        return update_wrapper(lambda *args, **values: client._pages(self.build(client, *args, **values)), self.build)


def _get(at: str, query: _Values | None = None, *, whose: Literal["query"] | None = None) -> Call[Any]:
    return Call("GET", at, query or {}, tenant=whose)


def _post(
    at: str, body: _Values, *, whose: Literal["query", "body"] | None = None, if_match: str | None = None
) -> Call[Any]:
    return Call("POST", at, body=body, tenant=whose, conditions={"If-Match": if_match})


def _patch(at: str, body: _Values, if_match: str | None, *, whose: Literal["query"] | None = None) -> Call[Any]:
    return Call("PATCH", at, body=body, tenant=whose, conditions={"If-Match": if_match})


def _delete(
    at: str, if_match: str | None, query: _Values | None = None, *, whose: Literal["query"] | None = None
) -> Call[Any]:
    return Call("DELETE", at, query or {}, tenant=whose, conditions={"If-Match": if_match})


def _document(project_name: str, document_name: str, *places: str) -> str:
    return path("projects", project_name, "documents", document_name, *places)


class Operations:
    """Methods of both clients."""

    @operation
    def actor_get(self, **query: Unpack[t.Whose]) -> Call[t.Actor]:
        """Return what a user overrides and every policy value as it holds."""
        return _get(path("actors"), query, whose="query")

    @operation
    def actor_update(self, *, if_match: str | None = None, **fields: Unpack[t.ActorPatch]) -> Call[t.Actor]:
        """Replace what a user overrides."""
        return _patch(path("actors"), fields, if_match, whose="query")

    @operation
    def actor_erase(self, *, user_id: str, agent_id: str | None = None, vacuum: bool = False) -> Call[t.Erased]:
        """Erase a user everywhere; return how many rows of each table went, and how many stay without the user."""
        query = {"user_id": user_id, "agent_id": agent_id, "vacuum": vacuum or None}
        return _delete(path("actors"), None, query, whose="query")

    @listing
    def agents_list(self, **query: Unpack[t.Paging]) -> Call[t.Agent]:
        """List the agents that the key may touch."""
        return _get(path("agents"), query)

    @operation
    def agents_create(self, **fields: Unpack[t.AgentIn]) -> Call[t.Agent]:
        """Create an agent; 409 where there is one with this id."""
        return _post(path("agents"), fields)

    @operation
    def agent_get(self, agent_id: str) -> Call[t.Agent]:
        """Return an agent."""
        return _get(path("agents", agent_id))

    @operation
    def agent_update(
        self, agent_id: str, *, if_match: str | None = None, **fields: Unpack[t.AgentPatch]
    ) -> Call[t.Agent]:
        """Change an agent's fields; what is left out stays."""
        return _patch(path("agents", agent_id), fields, if_match)

    @operation
    def context_assemble(self, **fields: Unpack[t.ContextIn]) -> Call[t.Context]:
        """Return what to send to the model, within the token limit, and the receipt that explains it."""
        return _post(path("context"), fields, whose="body")

    @listing
    def imports_list(self, **query: Unpack[t.WhosePaging]) -> Call[t.Import]:
        """List the imports into one actor's memory, the newest first."""
        return _get(path("imports"), query, whose="query")

    @operation
    def imports_create(self, **fields: Unpack[t.ImportIn]) -> Call[t.Import]:
        """Begin an import; its file follows in chunks."""
        return _post(path("imports"), fields, whose="body")

    @operation
    def import_get(self, import_id: str) -> Call[t.Import]:
        """Return an import with its state, progress and report."""
        return _get(path("imports", import_id))

    @operation
    def import_append(self, import_id: str, **fields: Unpack[t.ChunkIn]) -> Call[t.Import]:
        """Append bytes to the file; after a break, go on at its `size`."""
        return _post(path("imports", import_id, "chunks"), fields)

    @operation
    def import_order(self, import_id: str, **fields: Unpack[t.ImportOrderIn]) -> Call[t.Import]:
        """Order a dry run, the import, or the undo of all that it brought and nobody has changed since."""
        return _post(path("imports", import_id, "orders"), fields)

    @operation
    def job_get(self, job_id: str) -> Call[t.Job]:
        """Return where a job is on its way."""
        return _get(path("jobs", job_id))

    @listing
    def memories_list(self, **query: Unpack[t.MemoriesListQuery]) -> Call[t.Memory]:
        """List an actor's memories."""
        return _get(path("memories"), query, whose="query")

    @operation
    def memories_create(self, **fields: Unpack[t.MemoryIn]) -> Call[t.Memory]:
        """Write a memory; the same text again in the same namespace reinforces the existing one and answers 200."""
        return _post(path("memories"), fields, whose="body")

    @operation
    def memory_get(self, memory_id: str) -> Call[t.Memory]:
        """Return a memory with its numbers and its sources."""
        return _get(path("memories", memory_id))

    @operation
    def memory_update(
        self, memory_id: str, *, if_match: str | None = None, **fields: Unpack[t.MemoryPatch]
    ) -> Call[t.Memory]:
        """Edit a memory; the edit is a revision, and a new text is locked against automatic rewriting."""
        return _patch(path("memories", memory_id), fields, if_match)

    @operation
    def memory_delete(self, memory_id: str, *, if_match: str | None = None) -> Call[None]:
        """Delete a memory with its revisions; its text is removed from receipts as well."""
        return _delete(path("memories", memory_id), if_match)

    @operation
    def memory_approve(
        self, memory_id: str, *, if_match: str | None = None, **fields: Unpack[t.Reason]
    ) -> Call[t.Memory]:
        """Change the memory's state; 409 where its state does not allow it."""
        return _post(path("memories", memory_id, "approve"), fields, if_match=if_match)

    @operation
    def memory_archive(
        self, memory_id: str, *, if_match: str | None = None, **fields: Unpack[t.Reason]
    ) -> Call[t.Memory]:
        """Change the memory's state; 409 where its state does not allow it."""
        return _post(path("memories", memory_id, "archive"), fields, if_match=if_match)

    @operation
    def memory_impact(self, memory_id: str, **fields: Unpack[t.ImpactIn]) -> Call[t.Memory]:
        """Add an impact to a memory, and a share of it to its strength."""
        return _post(path("memories", memory_id, "impact"), fields)

    @operation
    def memory_pin(self, memory_id: str, *, if_match: str | None = None, **fields: Unpack[t.Reason]) -> Call[t.Memory]:
        """Change the memory's state; 409 where its state does not allow it."""
        return _post(path("memories", memory_id, "pin"), fields, if_match=if_match)

    @operation
    def memory_reactivate(
        self, memory_id: str, *, if_match: str | None = None, **fields: Unpack[t.Reason]
    ) -> Call[t.Memory]:
        """Change the memory's state; 409 where its state does not allow it."""
        return _post(path("memories", memory_id, "reactivate"), fields, if_match=if_match)

    @operation
    def memory_reject(
        self, memory_id: str, *, if_match: str | None = None, **fields: Unpack[t.Reason]
    ) -> Call[t.Memory]:
        """Change the memory's state; 409 where its state does not allow it."""
        return _post(path("memories", memory_id, "reject"), fields, if_match=if_match)

    @operation
    def memory_restore(
        self, memory_id: str, *, if_match: str | None = None, **fields: Unpack[t.RestoreIn]
    ) -> Call[t.Memory]:
        """Restore the curated fields to their values after a revision."""
        return _post(path("memories", memory_id, "restore"), fields, if_match=if_match)

    @listing
    def memory_revisions_list(self, memory_id: str, **query: Unpack[t.Paging]) -> Call[t.Revision]:
        """List a memory's revisions, newest first."""
        return _get(path("memories", memory_id, "revisions"), query)

    @operation
    def memory_strength_history(self, memory_id: str) -> Call[t.History]:
        """Return a memory's strength after each day's uses, impacts and sleeps, until now."""
        return _get(path("memories", memory_id, "strength"))

    @operation
    def memory_supersede(
        self, memory_id: str, *, if_match: str | None = None, **fields: Unpack[t.SupersedeIn]
    ) -> Call[t.Memory]:
        """End a memory's validity and write its replacement; searches `as_of` an earlier time still find it."""
        return _post(path("memories", memory_id, "supersede"), fields, if_match=if_match)

    @operation
    def memory_unpin(
        self, memory_id: str, *, if_match: str | None = None, **fields: Unpack[t.Reason]
    ) -> Call[t.Memory]:
        """Change the memory's state; 409 where its state does not allow it."""
        return _post(path("memories", memory_id, "unpin"), fields, if_match=if_match)

    @operation
    def memory_used(self, memory_id: str, **fields: Unpack[t.UsedIn]) -> Call[t.Memory]:
        """Strengthen a memory that was used; with a `task_id`, once for that task."""
        return _post(path("memories", memory_id, "used"), fields)

    @operation
    def memories_archive(self, **fields: Unpack[t.ArchiveIn]) -> Call[t.Updated]:
        """Archive those of the memories that are active."""
        return _post(path("memories", "archive"), fields)

    @operation
    def memories_candidates(self, **fields: Unpack[t.IdsIn]) -> Call[t.Updated]:
        """Count the memories as candidates; their strength stays as it is."""
        return _post(path("memories", "candidates"), fields)

    @operation
    def memories_count(self, **query: Unpack[t.MemoriesCountQuery]) -> Call[t.Count]:
        """Count an actor's memories that match these filters."""
        return _get(path("memories", "count"), query, whose="query")

    @operation
    def memories_retrieve(self, **fields: Unpack[t.RetrieveIn]) -> Call[t.Retrieve]:
        """Return the best memories of each namespace prefix, across all sessions."""
        return _post(path("memories", "retrieve"), fields, whose="body")

    @operation
    def memories_search(self, **fields: Unpack[t.SearchIn]) -> Call[t.Search]:
        """Return the best memories for a text or a vector, each with its score breakdown."""
        return _post(path("memories", "search"), fields, whose="body")

    @operation
    def memories_set_strengths(self, **fields: Unpack[t.StrengthsIn]) -> Call[t.Updated]:
        """Set the strengths of several memories; they decay from now on."""
        return _post(path("memories", "strengths"), fields)

    @operation
    def memories_used(self, **fields: Unpack[t.ManyUsedIn]) -> Call[t.Reinforced]:
        """Strengthen the memories that were used; with a `task_id`, each once for that task."""
        return _post(path("memories", "used"), fields)

    @listing
    def merges_list(self, **query: Unpack[t.MergesListQuery]) -> Call[t.Merge]:
        """List an actor's merges, newest first: those that wait for a decision, or others by `state`."""
        return _get(path("merges"), query, whose="query")

    @operation
    def merge_accept(self, merge_id: str, **fields: Unpack[t.Reason]) -> Call[t.Merge]:
        """Decide about a merge; 409 where it is decided already or its memories have changed since."""
        return _post(path("merges", merge_id, "accept"), fields)

    @operation
    def merge_dismiss(self, merge_id: str, **fields: Unpack[t.Reason]) -> Call[t.Merge]:
        """Decide about a merge; 409 where it is decided already or its memories have changed since."""
        return _post(path("merges", merge_id, "dismiss"), fields)

    @operation
    def merge_undo(self, merge_id: str, **fields: Unpack[t.Reason]) -> Call[t.Merge]:
        """Decide about a merge; 409 where it is decided already or its memories have changed since."""
        return _post(path("merges", merge_id, "undo"), fields)

    @operation
    def memories_batch(self, **fields: Unpack[t.MemoriesIn]) -> Call[t.MemoriesWritten]:
        """Write up to 1,000 memories; an item that cannot be written keeps no other out."""
        return _post(path("memories", "batch"), fields, whose="body")

    @operation
    def memories_bulk(self, **fields: Unpack[t.BulkIn]) -> Call[t.Bulk]:
        """Change or delete all of an actor's memories that match filters, by a job; `dry_run` counts and shows some."""
        return _post(path("memories", "bulk"), fields, whose="body")

    @operation
    def memories_bulk_state(self, batch_id: str) -> Call[t.BulkState]:
        """Return how far a batch is."""
        return _get(path("memories", "bulk", batch_id))

    @operation
    def memories_bulk_undo(self, batch_id: str, **fields: Unpack[t.Reason]) -> Call[t.BulkState]:
        """Undo a batch by a job: what was not changed since becomes as it was; 409 for a deletion."""
        return _post(path("memories", "bulk", batch_id, "undo"), fields)

    @operation
    def session_extract(self, session_id: str, **fields: Unpack[t.Write]) -> Call[t.ExtractionJob]:
        """Extract memories from a session's unread messages in the background, before those of other sessions."""
        return _post(path("sessions", session_id, "extract"), fields)

    @operation
    def session_extraction(self, session_id: str) -> Call[t.Extraction]:
        """Return how far the extraction of a session is."""
        return _get(path("sessions", session_id, "extraction"))

    @operation
    def changes_list(self, **query: Unpack[t.ChangesListQuery]) -> Call[t.Changes]:
        """List the changes of memories after a cursor, each once and in order per memory."""
        return _get(path("changes"), query, whose="query")

    @listing
    def projects_list(self, **query: Unpack[t.ProjectsListQuery]) -> Call[t.Project]:
        """List an actor's projects by name, the active ones if no status is given."""
        return _get(path("projects"), query, whose="query")

    @operation
    def projects_create(self, **fields: Unpack[t.ProjectIn]) -> Call[t.Project]:
        """Create a project; for an invalid name, the error proposes a valid one."""
        return _post(path("projects"), fields, whose="body")

    @operation
    def project_get(self, project_name: str, **query: Unpack[t.Whose]) -> Call[t.ProjectWithDocuments]:
        """Return a project with the list of its documents."""
        return _get(path("projects", project_name), query, whose="query")

    @operation
    def project_update(
        self, project_name: str, *, if_match: str | None = None, **fields: Unpack[t.ProjectPatch]
    ) -> Call[t.ProjectWithDocuments]:
        """Change a project's name or description; MEMORY.md's block quote follows."""
        return _patch(path("projects", project_name), fields, if_match, whose="query")

    @operation
    def project_delete(self, project_name: str, *, if_match: str | None = None, **query: Unpack[t.Whose]) -> Call[None]:
        """Delete a project with its documents; for 30 days, undoing the event of it brings it back."""
        return _delete(path("projects", project_name), if_match, query, whose="query")

    @operation
    def project_archive(self, project_name: str, **fields: Unpack[t.WhoseReason]) -> Call[t.Project]:
        """Take a project out of catalogs, routing and contexts; it is kept whole, and read only."""
        return _post(path("projects", project_name, "archive"), fields, whose="query")

    @operation
    def project_reactivate(self, project_name: str, **fields: Unpack[t.WhoseReason]) -> Call[t.Project]:
        """Bring an archived project back; one that was merged comes back by undoing the merge."""
        return _post(path("projects", project_name, "reactivate"), fields, whose="query")

    @operation
    def project_merge(self, project_name: str, **fields: Unpack[t.MergeIn]) -> Call[t.Transfer]:
        """Add a project's entries to another's documents with their origins, and archive it."""
        return _post(path("projects", project_name, "merge"), fields, whose="query")

    @operation
    def document_move(self, project_name: str, document_name: str, **fields: Unpack[t.MoveIn]) -> Call[t.Transfer]:
        """Move lines with their origins to another project, or to a new one."""
        return _post(_document(project_name, document_name, "move"), fields, whose="query")

    @operation
    def project_event_undo(self, event_id: str, **fields: Unpack[t.Reason]) -> Call[t.Project]:
        """Undo a merge, a move or, for 30 days, a deletion; what was written since stays."""
        return _post(path("projects", "events", event_id, "undo"), fields)

    @operation
    def document_get(
        self, project_name: str, document_name: str, **query: Unpack[t.DocumentGetQuery]
    ) -> Call[t.Document]:
        """Return a document, and record that it was read; with `pending`, with the entries that wait for approval."""
        return _get(_document(project_name, document_name), query, whose="query")

    @operation
    def document_put(
        self,
        project_name: str,
        document_name: str,
        *,
        if_match: str | None = None,
        if_none_match: Literal["*"] | None = None,
        pending: bool = False,
        **fields: Unpack[t.DocumentIn],
    ) -> Call[t.Document]:
        """Replace a document's text, with `pending` also the entries that wait for approval."""
        return Call(
            "PUT",
            _document(project_name, document_name),
            {"pending": pending or None},
            fields,
            tenant="query",
            conditions={"If-Match": if_match, "If-None-Match": if_none_match},
        )

    @listing
    def document_backups_list(
        self, project_name: str, document_name: str, **query: Unpack[t.DocumentBackupsListQuery]
    ) -> Call[t.DocumentVersion]:
        """Return the last three texts that a compaction replaced, newest first."""
        return _get(_document(project_name, document_name, "backups"), query, whose="query")

    @operation
    def document_delete(
        self, project_name: str, document_name: str, *, if_match: str | None = None, **query: Unpack[t.Whose]
    ) -> Call[None]:
        """Delete a document with its versions; its text is removed from receipts."""
        return _delete(_document(project_name, document_name), if_match, query, whose="query")

    @operation
    def document_compact(self, project_name: str, document_name: str, **fields: Unpack[t.WhoseWrite]) -> Call[t.JobId]:
        """Compact a document in the background, even below its limit; pinned.md never is."""
        return _post(_document(project_name, document_name, "compact"), fields, whose="query")

    @listing
    def document_entries_list(
        self, project_name: str, document_name: str, **query: Unpack[t.WhosePaging]
    ) -> Call[t.Entry]:
        """List the provenance of a document's appended lines, newest first."""
        return _get(_document(project_name, document_name, "entries"), query, whose="query")

    @operation
    def document_entries_create(
        self, project_name: str, document_name: str, *, if_match: str | None = None, **fields: Unpack[t.EntryIn]
    ) -> Call[t.Appended]:
        """Append one line to a document, which is created if necessary; return whether the line is pending."""
        return _post(_document(project_name, document_name, "entries"), fields, whose="query", if_match=if_match)

    @operation
    def document_restore(
        self,
        project_name: str,
        document_name: str,
        *,
        if_match: str | None = None,
        **fields: Unpack[t.DocumentRestoreIn],
    ) -> Call[t.Document]:
        """Restore the text of a version; backups are versions."""
        return _post(_document(project_name, document_name, "restore"), fields, whose="query", if_match=if_match)

    @listing
    def document_versions_list(
        self, project_name: str, document_name: str, **query: Unpack[t.DocumentVersionsListQuery]
    ) -> Call[t.DocumentVersion]:
        """List a document's former texts, newest first."""
        return _get(_document(project_name, document_name, "versions"), query, whose="query")

    @operation
    def projects_catalog(self, **query: Unpack[t.Whose]) -> Call[str]:
        """Return the numbered list of projects that a router reads, about 30 tokens each."""
        return _get(path("projects", "catalog"), query, whose="query")

    @listing
    def project_events_list(self, **query: Unpack[t.ProjectEventsListQuery]) -> Call[t.Event]:
        """List events, newest first."""
        return _get(path("projects", "events"), query, whose="query")

    @operation
    def project_events_daily(self, **query: Unpack[t.ProjectEventsDailyQuery]) -> Call[t.Days]:
        """Return the number of events and tokens by day, project and kind."""
        return _get(path("projects", "events", "daily"), query, whose="query")

    @operation
    def projects_route(self, **fields: Unpack[t.RouteIn]) -> Call[t.Route]:
        """Return a message's project, the confidence and the action; the decision is stored."""
        return _post(path("projects", "route"), fields, whose="body")

    @listing
    def routes_list(self, **query: Unpack[t.WhosePaging]) -> Call[t.Route]:
        """List decisions, newest first."""
        return _get(path("projects", "routes"), query, whose="query")

    @operation
    def route_correct(self, route_id: str, **fields: Unpack[t.CorrectionIn]) -> Call[t.Route]:
        """Correct a message's project; similar messages are routed there from now on."""
        return _post(path("projects", "routes", route_id, "correct"), fields)

    @listing
    def route_misplaced_list(self, route_id: str) -> Call[t.Misplaced]:
        """List what was written into the wrong project because of a decision that was corrected since."""
        return _get(path("projects", "routes", route_id, "misplaced"))

    @operation
    def route_misplaced_move(self, route_id: str, **fields: Unpack[t.MisplacedIn]) -> Call[t.Transfer]:
        """Move it to the project that the message was corrected to."""
        return _post(path("projects", "routes", route_id, "misplaced"), fields)

    @operation
    def receipt_get(self, receipt_id: str) -> Call[t.Receipt]:
        """Return why a context was what it was: every candidate, and what became of it."""
        return _get(path("receipts", receipt_id))

    @listing
    def sessions_list(self, **query: Unpack[t.WhosePaging]) -> Call[t.Session]:
        """List an actor's sessions, newest first."""
        return _get(path("sessions"), query, whose="query")

    @operation
    def sessions_create(self, **fields: Unpack[t.SessionIn]) -> Call[t.Session]:
        """Open a session; the same id again answers 200 with the session as it is."""
        return _post(path("sessions"), fields, whose="body")

    @operation
    def session_get(self, session_id: str) -> Call[t.Session]:
        """Return a session."""
        return _get(path("sessions", session_id))

    @operation
    def session_end(self, session_id: str, **fields: Unpack[t.Write]) -> Call[t.Session]:
        """End a session; a later message reopens it."""
        return _post(path("sessions", session_id, "end"), fields)

    @listing
    def messages_list(self, session_id: str, **query: Unpack[t.Paging]) -> Call[t.Message]:
        """List a session's messages in the order of `seq`."""
        return _get(path("sessions", session_id, "messages"), query)

    @operation
    def messages_create(self, session_id: str, **fields: Unpack[t.OneOrManyIn]) -> Call[t.Messages]:
        """Store one message, or `{"messages": [...]}`; repeats of a `client_message_id` return the first row."""
        return _post(path("sessions", session_id, "messages"), fields)

    @operation
    def session_stats(self, session_id: str) -> Call[t.Stats]:
        """Return counts and times of a session."""
        return _get(path("sessions", session_id, "stats"))

    @operation
    def summary_get(self, session_id: str) -> Call[t.Summary]:
        """Return a session's summary."""
        return _get(path("sessions", session_id, "summary"))

    @operation
    def summary_create(self, session_id: str, **fields: Unpack[t.SummaryOrderIn]) -> Call[t.JobId]:
        """Write the summary in the background, due or not; with a time window, of its messages alone."""
        return _post(path("sessions", session_id, "summary"), fields)

    @operation
    def summary_update(
        self, session_id: str, *, if_match: str | None = None, **fields: Unpack[t.SummaryPatch]
    ) -> Call[t.Summary]:
        """Edit the text, which locks it against rewriting, or lock and unlock it."""
        return _patch(path("sessions", session_id, "summary"), fields, if_match)

    @operation
    def summary_delete(self, session_id: str, *, if_match: str | None = None) -> Call[None]:
        """Delete the summary with its versions; its text is removed from receipts as well."""
        return _delete(path("sessions", session_id, "summary"), if_match)

    @operation
    def summary_restore(
        self, session_id: str, *, if_match: str | None = None, **fields: Unpack[t.SummaryRestoreIn]
    ) -> Call[t.Summary]:
        """Restore a version's text, and lock the summary."""
        return _post(path("sessions", session_id, "summary", "restore"), fields, if_match=if_match)

    @listing
    def summary_versions_list(self, session_id: str, **query: Unpack[t.Paging]) -> Call[t.SummaryVersion]:
        """List a summary's versions, newest first."""
        return _get(path("sessions", session_id, "summary", "versions"), query)

    @listing
    def sleep_runs_list(self, **query: Unpack[t.SleepRunsListQuery]) -> Call[t.Sleep]:
        """List an actor's sleeps, newest first."""
        return _get(path("sleep-runs"), query, whose="query")

    @operation
    def sleep_runs_create(self, **fields: Unpack[t.SleepIn]) -> Call[t.WholeSleep]:
        """Run a sleep: decay, archive, refresh levels, propose merges; with `dry_run`, only say what would change."""
        return _post(path("sleep-runs"), fields, whose="body")

    @operation
    def sleep_run_get(self, run_id: str) -> Call[t.WholeSleep]:
        """Return a sleep with its changes; decays are listed until the actor's next sleep."""
        return _get(path("sleep-runs", run_id))

    @operation
    def sleep_run_undo(self, run_id: str, **fields: Unpack[t.Reason]) -> Call[t.WholeSleep]:
        """Undo a sleep as a unit, except for memories used or curated since."""
        return _post(path("sleep-runs", run_id, "undo"), fields)

    @operation
    def profile_get(self, **query: Unpack[t.Whose]) -> Call[t.Profile]:
        """Return what contexts are offered about a user, with the memories that each line rests on."""
        return _get(path("profile"), query, whose="query")

    @operation
    def profile_write(self, **fields: Unpack[t.Tenant]) -> Call[t.ProfileJob]:
        """Let a model write the profile in the background, due or not; where the policy `write_profile` is on."""
        return _post(path("profile"), fields, whose="body")

    @operation
    def profile_update(self, *, if_match: str | None = None, **fields: Unpack[t.ProfilePatch]) -> Call[t.Profile]:
        """Edit the written text, which locks it against rewriting, or lock and unlock it."""
        return _patch(path("profile"), fields, if_match, whose="query")

    @operation
    def profile_delete(self, *, if_match: str | None = None, **query: Unpack[t.Whose]) -> Call[None]:
        """Delete the written profile with its versions; contexts hold the memories themselves again."""
        return _delete(path("profile"), if_match, query, whose="query")

    @operation
    def profile_restore(self, *, if_match: str | None = None, **fields: Unpack[t.ProfileRestoreIn]) -> Call[t.Profile]:
        """Restore a version's text, and lock the profile."""
        return _post(path("profile", "restore"), fields, whose="body", if_match=if_match)

    @listing
    def profile_versions_list(self, **query: Unpack[t.WhosePaging]) -> Call[t.ProfileVersion]:
        """List a written profile's versions, newest first."""
        return _get(path("profile", "versions"), query, whose="query")

    @listing
    def summaries_list(self, **query: Unpack[t.WhosePaging]) -> Call[t.Summary]:
        """List an actor's summaries, that of the latest session first."""
        return _get(path("summaries"), query, whose="query")

    @operation
    def summaries_digest(self, **fields: Unpack[t.DigestIn]) -> Call[t.Digest]:
        """Return a digest of an actor's trusted summaries, of a time window or a project; it is not stored."""
        return _post(path("summaries", "digest"), fields, whose="body")

    @operation
    def tasks_create(self, **fields: Unpack[t.TaskIn]) -> Call[t.Task]:
        """Begin a task: search its query; the memories found count as candidates."""
        return _post(path("tasks"), fields, whose="body")

    @operation
    def task_get(self, task_id: str) -> Call[t.Outcome]:
        """Return a task's outcome so far."""
        return _get(path("tasks", task_id))

    @operation
    def task_complete(self, task_id: str, **fields: Unpack[t.CompleteIn]) -> Call[t.Outcome]:
        """Complete a task: reinforce the memories that its result used, and record a learning."""
        return _post(path("tasks", task_id, "complete"), fields)

    @operation
    def usage_get(self, **query: Unpack[t.UsageGetQuery]) -> Call[t.Spending]:
        """Return what an agent's calls came to; of one user where one is named, or the key is bound to one."""
        return _get(path("usage"), query, whose="query")
