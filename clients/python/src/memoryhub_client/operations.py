"""Operations of the API. Written by `make schema` from the API's schema; do not edit.

A method builds a `Call`, and its client sends it. Methods are named after the API's operation ids, fields after the
API's fields. On `Memoryhub` they return the answer, on `AsyncMemoryhub` an awaitable of it; lists are iterators over
all their pages.
"""

# ruff: noqa: E501
# fmt: off
from __future__ import annotations

from typing import Unpack

from memoryhub_client import types as t
from memoryhub_client.methods import listing, operation
from memoryhub_client.transport import Call, path


class Operations:
    """Methods of both clients."""

    @operation
    def actor_get(self, **query: Unpack[t.Whose]) -> Call[t.Actor]:
        """Return what a user overrides and every policy value as it holds."""
        return Call("GET", path("actors"), query, tenant="query")

    @operation
    def actor_update(self, *, if_match: str | None = None, **fields: Unpack[t.ActorPatch]) -> Call[t.Actor]:
        """Replace what a user overrides."""
        return Call("PATCH", path("actors"), body=fields, tenant="query", conditions={"If-Match": if_match})

    @operation
    def actor_what_if(self, *, if_match: str | None = None, **fields: Unpack[t.ActorWhatIfIn]) -> Call[t.Effect]:
        """Return what other policy overrides of a user would do to the user's latest contexts."""
        return Call("POST", path("actors", "what-if"), body=fields, tenant="body", conditions={"If-Match": if_match})

    @listing
    def agents_list(self, **query: Unpack[t.Paging]) -> Call[t.Agent]:
        """List the agents that the key may touch."""
        return Call("GET", path("agents"), query)

    @operation
    def agents_create(self, **fields: Unpack[t.AgentIn]) -> Call[t.Agent]:
        """Create an agent; 409 where there is one with this id."""
        return Call("POST", path("agents"), body=fields)

    @operation
    def agent_get(self, agent_id: str) -> Call[t.Agent]:
        """Return an agent."""
        return Call("GET", path("agents", agent_id))

    @operation
    def agent_update(self, agent_id: str, *, if_match: str | None = None, **fields: Unpack[t.AgentPatch]) -> Call[t.Agent]:
        """Change an agent's fields; what is left out stays."""
        return Call("PATCH", path("agents", agent_id), body=fields, conditions={"If-Match": if_match})

    @operation
    def agent_what_if(self, agent_id: str, *, if_match: str | None = None, **fields: Unpack[t.AgentWhatIfIn]) -> Call[t.Effect]:
        """Return what a change of an agent, such as of its policies, would do to the latest contexts of its users."""
        return Call("POST", path("agents", agent_id, "what-if"), body=fields, conditions={"If-Match": if_match})

    @operation
    def changes_list(self, **query: Unpack[t.ChangesListQuery]) -> Call[t.Changes]:
        """List the changes of memories after a cursor, each once and in order per memory."""
        return Call("GET", path("changes"), query, tenant="query")

    @operation
    def context_assemble(self, **fields: Unpack[t.ContextIn]) -> Call[t.Context]:
        """Return what to send to the model, within the token limit, and the receipt that explains it."""
        return Call("POST", path("context"), body=fields, tenant="body")

    @listing
    def expectations_list(self, **query: Unpack[t.ExpectationsListQuery]) -> Call[t.Expectation]:
        """List the expectations about a user's contexts, newest first."""
        return Call("GET", path("expectations"), query, tenant="query")

    @operation
    def expectation_keep(self, **fields: Unpack[t.ExpectationIn]) -> Call[t.Expectation]:
        """Keep an expectation, and check it; one about the same receipt and memory is replaced."""
        return Call("POST", path("expectations"), body=fields)

    @operation
    def expectation_withdraw(self, expectation_id: str) -> Call[None]:
        """Delete an expectation."""
        return Call("DELETE", path("expectations", expectation_id))

    @operation
    def expectations_check(self, **fields: Unpack[t.CheckIn]) -> Call[t.Checked]:
        """Check the newest 200 expectations about a user's contexts now, and return those that are broken."""
        return Call("POST", path("expectations", "check"), body=fields, tenant="body")

    @listing
    def imports_list(self, **query: Unpack[t.WhosePaging]) -> Call[t.Import]:
        """List the imports into one actor's memory, the newest first."""
        return Call("GET", path("imports"), query, tenant="query")

    @operation
    def imports_create(self, **fields: Unpack[t.ImportIn]) -> Call[t.Import]:
        """Begin an import; its file follows in chunks."""
        return Call("POST", path("imports"), body=fields, tenant="body")

    @operation
    def import_get(self, import_id: str) -> Call[t.OneImport]:
        """Return an import with its state, progress, report, and the cost of its extraction."""
        return Call("GET", path("imports", import_id))

    @operation
    def import_append(self, import_id: str, **fields: Unpack[t.ChunkIn]) -> Call[t.Import]:
        """Append bytes to the file; after a break, go on at its `size`."""
        return Call("POST", path("imports", import_id, "chunks"), body=fields)

    @operation
    def import_order(self, import_id: str, **fields: Unpack[t.ImportOrderIn]) -> Call[t.Import]:
        """Order a dry run, the import, its undo, or a pause of its extraction.

        The undo deletes imported rows that were not changed since. A pause lets a model read nothing
        more of the imported conversations until it is resumed."""
        return Call("POST", path("imports", import_id, "orders"), body=fields)

    @operation
    def job_get(self, job_id: str) -> Call[t.Job]:
        """Return where a job is on its way."""
        return Call("GET", path("jobs", job_id))

    @listing
    def memories_list(self, **query: Unpack[t.MemoriesListQuery]) -> Call[t.Memory]:
        """List an actor's memories; with `q` the best matches of a text, without marking them as candidates."""
        return Call("GET", path("memories"), query, tenant="query")

    @operation
    def memories_create(self, **fields: Unpack[t.MemoryIn]) -> Call[t.Memory]:
        """Write a memory; the same text again in the same namespace reinforces the existing one and answers 200.

        So does a text of the same kind and scope that differs in case, width, punctuation or words of emphasis.
        Within a minute, and without an `Idempotency-Key`, a repetition is taken for a retry and reinforces nothing."""
        return Call("POST", path("memories"), body=fields, tenant="body")

    @operation
    def memory_get(self, memory_id: str) -> Call[t.Memory]:
        """Return a memory with its numbers and its sources."""
        return Call("GET", path("memories", memory_id))

    @operation
    def memory_update(self, memory_id: str, *, if_match: str | None = None, **fields: Unpack[t.MemoryPatch]) -> Call[t.Memory]:
        """Edit a memory; the edit is a revision, and a new text is locked against automatic rewriting."""
        return Call("PATCH", path("memories", memory_id), body=fields, conditions={"If-Match": if_match})

    @operation
    def memory_delete(self, memory_id: str, *, if_match: str | None = None, **query: Unpack[t.MemoryDeleteQuery]) -> Call[t.MemoryDeletion]:
        """Delete a memory with its revisions; its text is removed from receipts as well.

        Where messages that it comes from are stored, they still say it: the answer names them, or `with_sources`
        deletes them too."""
        return Call("DELETE", path("memories", memory_id), query, conditions={"If-Match": if_match})

    @operation
    def memory_approve(self, memory_id: str, *, if_match: str | None = None, **fields: Unpack[t.Reason]) -> Call[t.Memory]:
        """Change the memory's state; 409 where its state does not allow it."""
        return Call("POST", path("memories", memory_id, "approve"), body=fields, conditions={"If-Match": if_match})

    @operation
    def memory_archive(self, memory_id: str, *, if_match: str | None = None, **fields: Unpack[t.Reason]) -> Call[t.Memory]:
        """Change the memory's state; 409 where its state does not allow it."""
        return Call("POST", path("memories", memory_id, "archive"), body=fields, conditions={"If-Match": if_match})

    @operation
    def memory_impact(self, memory_id: str, **fields: Unpack[t.ImpactIn]) -> Call[t.Memory]:
        """Add an impact to a memory, and a share of it to its strength."""
        return Call("POST", path("memories", memory_id, "impact"), body=fields)

    @operation
    def memory_pin(self, memory_id: str, *, if_match: str | None = None, **fields: Unpack[t.Reason]) -> Call[t.Memory]:
        """Change the memory's state; 409 where its state does not allow it."""
        return Call("POST", path("memories", memory_id, "pin"), body=fields, conditions={"If-Match": if_match})

    @operation
    def memory_reactivate(self, memory_id: str, *, if_match: str | None = None, **fields: Unpack[t.Reason]) -> Call[t.Memory]:
        """Change the memory's state; 409 where its state does not allow it."""
        return Call("POST", path("memories", memory_id, "reactivate"), body=fields, conditions={"If-Match": if_match})

    @operation
    def memory_reject(self, memory_id: str, *, if_match: str | None = None, **fields: Unpack[t.Reason]) -> Call[t.Memory]:
        """Change the memory's state; 409 where its state does not allow it."""
        return Call("POST", path("memories", memory_id, "reject"), body=fields, conditions={"If-Match": if_match})

    @operation
    def memory_restore(self, memory_id: str, *, if_match: str | None = None, **fields: Unpack[t.RestoreIn]) -> Call[t.Memory]:
        """Restore the curated fields to their values after a revision."""
        return Call("POST", path("memories", memory_id, "restore"), body=fields, conditions={"If-Match": if_match})

    @listing
    def memory_revisions_list(self, memory_id: str, **query: Unpack[t.Paging]) -> Call[t.Revision]:
        """List a memory's revisions, newest first."""
        return Call("GET", path("memories", memory_id, "revisions"), query)

    @operation
    def memory_strength_history(self, memory_id: str) -> Call[t.History]:
        """Return a memory's strength after each day's uses, impacts and sleeps, until now."""
        return Call("GET", path("memories", memory_id, "strength"))

    @operation
    def memory_supersede(self, memory_id: str, *, if_match: str | None = None, **fields: Unpack[t.SupersedeIn]) -> Call[t.Memory]:
        """End a memory's validity and write its replacement; searches `as_of` an earlier time still find it."""
        return Call("POST", path("memories", memory_id, "supersede"), body=fields, conditions={"If-Match": if_match})

    @operation
    def memory_unpin(self, memory_id: str, *, if_match: str | None = None, **fields: Unpack[t.Reason]) -> Call[t.Memory]:
        """Change the memory's state; 409 where its state does not allow it."""
        return Call("POST", path("memories", memory_id, "unpin"), body=fields, conditions={"If-Match": if_match})

    @operation
    def memory_used(self, memory_id: str, **fields: Unpack[t.UsedIn]) -> Call[t.Memory]:
        """Strengthen a memory that was used; with a `task_id`, once for that task."""
        return Call("POST", path("memories", memory_id, "used"), body=fields)

    @operation
    def memory_what_if(self, memory_id: str, *, if_match: str | None = None, **fields: Unpack[t.WhatIfIn]) -> Call[t.Effect]:
        """Return what a change would do to the latest contexts, without making it; refused as the change itself."""
        return Call("POST", path("memories", memory_id, "what-if"), body=fields, conditions={"If-Match": if_match})

    @operation
    def memories_archive(self, **fields: Unpack[t.ArchiveIn]) -> Call[t.Updated]:
        """Archive those of the memories that are active."""
        return Call("POST", path("memories", "archive"), body=fields)

    @operation
    def memories_batch(self, **fields: Unpack[t.MemoriesIn]) -> Call[t.MemoriesWritten]:
        """Write up to 1,000 memories; an item that cannot be written keeps no other out."""
        return Call("POST", path("memories", "batch"), body=fields, tenant="body")

    @operation
    def memories_bulk(self, **fields: Unpack[t.BulkIn]) -> Call[t.Bulk]:
        """Change or delete all of an actor's memories that match filters, by a job; `dry_run` counts and shows some.

        `relabel` changes tags, kind or namespace. What is changed between the call and the job stays as it is. All but
        `delete` can be undone as one batch."""
        return Call("POST", path("memories", "bulk"), body=fields, tenant="body")

    @operation
    def memories_bulk_state(self, batch_id: str) -> Call[t.BulkState]:
        """Return how far a batch is."""
        return Call("GET", path("memories", "bulk", batch_id))

    @operation
    def memories_bulk_undo(self, batch_id: str, **fields: Unpack[t.Reason]) -> Call[t.BulkState]:
        """Undo a batch by a job: what was not changed since becomes as it was; 409 for a deletion."""
        return Call("POST", path("memories", "bulk", batch_id, "undo"), body=fields)

    @operation
    def memories_candidates(self, **fields: Unpack[t.IdsIn]) -> Call[t.Updated]:
        """Count the memories as candidates; their strength stays as it is."""
        return Call("POST", path("memories", "candidates"), body=fields)

    @operation
    def memories_count(self, **query: Unpack[t.MemoriesCountQuery]) -> Call[t.Count]:
        """Count an actor's memories that match these filters."""
        return Call("GET", path("memories", "count"), query, tenant="query")

    @operation
    def memories_retrieve(self, **fields: Unpack[t.RetrieveIn]) -> Call[t.Retrieve]:
        """Return the best memories of each namespace prefix, across all sessions."""
        return Call("POST", path("memories", "retrieve"), body=fields, tenant="body")

    @operation
    def memories_search(self, **fields: Unpack[t.SearchIn]) -> Call[t.Search]:
        """Return the best memories for a text or a vector, each with its score breakdown."""
        return Call("POST", path("memories", "search"), body=fields, tenant="body")

    @operation
    def memories_set_strengths(self, **fields: Unpack[t.StrengthsIn]) -> Call[t.Updated]:
        """Set the strengths of several memories; they decay from now on."""
        return Call("POST", path("memories", "strengths"), body=fields)

    @operation
    def memories_used(self, **fields: Unpack[t.ManyUsedIn]) -> Call[t.Reinforced]:
        """Strengthen the memories that were used; with a `task_id`, each once for that task."""
        return Call("POST", path("memories", "used"), body=fields)

    @listing
    def merges_list(self, **query: Unpack[t.MergesListQuery]) -> Call[t.Merge]:
        """List an actor's merges, newest first: those that wait for a decision, or others by `state`."""
        return Call("GET", path("merges"), query, tenant="query")

    @operation
    def merge_accept(self, merge_id: str, **fields: Unpack[t.Reason]) -> Call[t.Merge]:
        """Decide about a merge; 409 where it is decided already or its memories have changed since."""
        return Call("POST", path("merges", merge_id, "accept"), body=fields)

    @operation
    def merge_dismiss(self, merge_id: str, **fields: Unpack[t.Reason]) -> Call[t.Merge]:
        """Decide about a merge; 409 where it is decided already or its memories have changed since."""
        return Call("POST", path("merges", merge_id, "dismiss"), body=fields)

    @operation
    def merge_undo(self, merge_id: str, **fields: Unpack[t.Reason]) -> Call[t.Merge]:
        """Decide about a merge; 409 where it is decided already or its memories have changed since."""
        return Call("POST", path("merges", merge_id, "undo"), body=fields)

    @operation
    def merge_what_if(self, merge_id: str, **fields: Unpack[t.MergeWhatIfIn]) -> Call[t.Effect]:
        """Return what a merge would do to the latest contexts, without making it; refused as the merge itself."""
        return Call("POST", path("merges", merge_id, "what-if"), body=fields)

    @operation
    def message_delete(self, message_id: str, **query: Unpack[t.MessageDeleteQuery]) -> Call[t.Deletion]:
        """Delete a message with all that was drawn from it; the numbers of the others do not change."""
        return Call("DELETE", path("messages", message_id), query)

    @operation
    def profile_get(self, **query: Unpack[t.Whose]) -> Call[t.Profile]:
        """Return what contexts are offered about a user, with the memories that each line rests on."""
        return Call("GET", path("profile"), query, tenant="query")

    @operation
    def profile_write(self, **fields: Unpack[t.Tenant]) -> Call[t.ProfileJob]:
        """Let a model write the profile in the background, due or not; where the policy `write_profile` is on."""
        return Call("POST", path("profile"), body=fields, tenant="body")

    @operation
    def profile_update(self, *, if_match: str | None = None, **fields: Unpack[t.ProfilePatch]) -> Call[t.Profile]:
        """Edit the written text, which locks it against rewriting, or lock and unlock it."""
        return Call("PATCH", path("profile"), body=fields, tenant="query", conditions={"If-Match": if_match})

    @operation
    def profile_delete(self, *, if_match: str | None = None, **query: Unpack[t.Whose]) -> Call[None]:
        """Delete the written profile with its versions; contexts hold the memories themselves again."""
        return Call("DELETE", path("profile"), query, tenant="query", conditions={"If-Match": if_match})

    @operation
    def profile_restore(self, *, if_match: str | None = None, **fields: Unpack[t.ProfileRestoreIn]) -> Call[t.Profile]:
        """Restore a version's text, and lock the profile."""
        return Call("POST", path("profile", "restore"), body=fields, tenant="body", conditions={"If-Match": if_match})

    @listing
    def profile_versions_list(self, **query: Unpack[t.WhosePaging]) -> Call[t.ProfileVersion]:
        """List a written profile's versions, newest first."""
        return Call("GET", path("profile", "versions"), query, tenant="query")

    @listing
    def projects_list(self, **query: Unpack[t.ProjectsListQuery]) -> Call[t.Project]:
        """List an actor's projects by name, the active ones if no status is given."""
        return Call("GET", path("projects"), query, tenant="query")

    @operation
    def projects_create(self, **fields: Unpack[t.ProjectIn]) -> Call[t.Project]:
        """Create a project; for an invalid name, the error proposes a valid one."""
        return Call("POST", path("projects"), body=fields, tenant="body")

    @operation
    def project_get(self, project_name: str, **query: Unpack[t.Whose]) -> Call[t.ProjectWithDocuments]:
        """Return a project with the list of its documents."""
        return Call("GET", path("projects", project_name), query, tenant="query")

    @operation
    def project_update(self, project_name: str, *, if_match: str | None = None, **fields: Unpack[t.ProjectPatch]) -> Call[t.ProjectWithDocuments]:
        """Change a project's name or description; MEMORY.md's block quote follows."""
        return Call("PATCH", path("projects", project_name), body=fields, tenant="query", conditions={"If-Match": if_match})

    @operation
    def project_delete(self, project_name: str, *, if_match: str | None = None, **query: Unpack[t.Whose]) -> Call[None]:
        """Delete a project with its documents; for 30 days, undoing the event of it brings it back."""
        return Call("DELETE", path("projects", project_name), query, tenant="query", conditions={"If-Match": if_match})

    @operation
    def project_archive(self, project_name: str, **fields: Unpack[t.WhoseReason]) -> Call[t.Project]:
        """Take a project out of catalogs, routing and contexts; it is kept whole, and read only."""
        return Call("POST", path("projects", project_name, "archive"), body=fields, tenant="query")

    @operation
    def document_get(self, project_name: str, document_name: str, **query: Unpack[t.DocumentGetQuery]) -> Call[t.Document]:
        """Return a document, and record that it was read; with If-None-Match, only whether it exists (304).

        Its text leaves out the entries that wait for approval, unless `pending` asks for them."""
        return Call("GET", path("projects", project_name, "documents", document_name), query, tenant="query")

    @operation
    def document_put(self, project_name: str, document_name: str, *, if_match: str | None = None, if_none_match: str | None = None, pending: bool | None = None, **fields: Unpack[t.DocumentIn]) -> Call[t.Document]:
        """Replace a document's text; the former text is kept as a version.

        Entries that wait for approval stay at its end; with `pending`, the text replaces them too."""
        return Call("PUT", path("projects", project_name, "documents", document_name), body=fields, query={"pending": pending}, tenant="query", conditions={"If-Match": if_match, "If-None-Match": if_none_match})

    @operation
    def document_delete(self, project_name: str, document_name: str, *, if_match: str | None = None, **query: Unpack[t.Whose]) -> Call[None]:
        """Delete a document; for 30 days, undoing the event of it brings it back."""
        return Call("DELETE", path("projects", project_name, "documents", document_name), query, tenant="query", conditions={"If-Match": if_match})

    @listing
    def document_backups_list(self, project_name: str, document_name: str, **query: Unpack[t.DocumentBackupsListQuery]) -> Call[t.DocumentVersion]:
        """Return the last three texts that a compaction replaced, newest first."""
        return Call("GET", path("projects", project_name, "documents", document_name, "backups"), query, tenant="query")

    @operation
    def document_compact(self, project_name: str, document_name: str, **fields: Unpack[t.WhoseWrite]) -> Call[t.JobId]:
        """Compact a document in the background, even below its limit; pinned.md never is."""
        return Call("POST", path("projects", project_name, "documents", document_name, "compact"), body=fields, tenant="query")

    @listing
    def document_entries_list(self, project_name: str, document_name: str, **query: Unpack[t.WhosePaging]) -> Call[t.Entry]:
        """List a document's appended lines with their provenance, newest first."""
        return Call("GET", path("projects", project_name, "documents", document_name, "entries"), query, tenant="query")

    @operation
    def document_entries_create(self, project_name: str, document_name: str, *, if_match: str | None = None, **fields: Unpack[t.EntryIn]) -> Call[t.Appended]:
        """Append one line to a document, which is created if necessary; return whether the line is pending."""
        return Call("POST", path("projects", project_name, "documents", document_name, "entries"), body=fields, tenant="query", conditions={"If-Match": if_match})

    @operation
    def document_move(self, project_name: str, document_name: str, **fields: Unpack[t.MoveIn]) -> Call[t.Transfer]:
        """Move lines with their origins to another project, or to a new one."""
        return Call("POST", path("projects", project_name, "documents", document_name, "move"), body=fields, tenant="query")

    @operation
    def document_restore(self, project_name: str, document_name: str, *, if_match: str | None = None, **fields: Unpack[t.DocumentRestoreIn]) -> Call[t.Document]:
        """Restore the text of a version; backups are versions."""
        return Call("POST", path("projects", project_name, "documents", document_name, "restore"), body=fields, tenant="query", conditions={"If-Match": if_match})

    @listing
    def document_versions_list(self, project_name: str, document_name: str, **query: Unpack[t.DocumentVersionsListQuery]) -> Call[t.DocumentVersion]:
        """List a document's former texts, newest first."""
        return Call("GET", path("projects", project_name, "documents", document_name, "versions"), query, tenant="query")

    @operation
    def project_merge(self, project_name: str, **fields: Unpack[t.MergeIn]) -> Call[t.Transfer]:
        """Add a project's entries to another's documents with their origins, and archive it.

        Messages that were routed or corrected to it count as the other's from then on."""
        return Call("POST", path("projects", project_name, "merge"), body=fields, tenant="query")

    @operation
    def project_reactivate(self, project_name: str, **fields: Unpack[t.WhoseReason]) -> Call[t.Project]:
        """Bring an archived project back; one that was merged comes back by undoing the merge."""
        return Call("POST", path("projects", project_name, "reactivate"), body=fields, tenant="query")

    @operation
    def projects_catalog(self, **query: Unpack[t.Whose]) -> Call[str]:
        """Return the numbered list of projects that a router reads, about 30 tokens each."""
        return Call("GET", path("projects", "catalog"), query, tenant="query")

    @listing
    def project_events_list(self, **query: Unpack[t.ProjectEventsListQuery]) -> Call[t.Event]:
        """List events, newest first."""
        return Call("GET", path("projects", "events"), query, tenant="query")

    @operation
    def project_event_undo(self, event_id: str, **fields: Unpack[t.Reason]) -> Call[t.Project]:
        """Undo a merge, a move or, for 30 days, the deletion of a project or document; what was written since stays."""
        return Call("POST", path("projects", "events", event_id, "undo"), body=fields)

    @operation
    def project_events_daily(self, **query: Unpack[t.ProjectEventsDailyQuery]) -> Call[t.Days]:
        """Return the number of events and tokens by day, project and kind."""
        return Call("GET", path("projects", "events", "daily"), query, tenant="query")

    @operation
    def projects_route(self, **fields: Unpack[t.RouteIn]) -> Call[t.Route]:
        """Return a message's project, the confidence and the action; the decision is stored."""
        return Call("POST", path("projects", "route"), body=fields, tenant="body")

    @listing
    def routes_list(self, **query: Unpack[t.WhosePaging]) -> Call[t.Route]:
        """List decisions, newest first."""
        return Call("GET", path("projects", "routes"), query, tenant="query")

    @operation
    def route_correct(self, route_id: str, **fields: Unpack[t.CorrectionIn]) -> Call[t.Route]:
        """Correct a message's project; similar messages are routed there from now on."""
        return Call("POST", path("projects", "routes", route_id, "correct"), body=fields)

    @listing
    def route_misplaced_list(self, route_id: str) -> Call[t.Misplaced]:
        """List what was written into the wrong project because of a decision that was corrected since."""
        return Call("GET", path("projects", "routes", route_id, "misplaced"))

    @operation
    def route_misplaced_move(self, route_id: str, **fields: Unpack[t.MisplacedIn]) -> Call[t.Transfer]:
        """Move it to the project that the message was corrected to."""
        return Call("POST", path("projects", "routes", route_id, "misplaced"), body=fields)

    @operation
    def receipt_get(self, receipt_id: str) -> Call[t.Receipt]:
        """Return why a context was what it was: every candidate, and what became of it."""
        return Call("GET", path("receipts", receipt_id))

    @operation
    def receipt_latest(self, **query: Unpack[t.ReceiptLatestQuery]) -> Call[t.Receipt]:
        """Return the newest receipt of an actor, or of one of its sessions."""
        return Call("GET", path("receipts", "latest"), query, tenant="query")

    @listing
    def sessions_list(self, **query: Unpack[t.WhosePaging]) -> Call[t.Session]:
        """List an actor's sessions, newest first."""
        return Call("GET", path("sessions"), query, tenant="query")

    @operation
    def sessions_create(self, **fields: Unpack[t.SessionIn]) -> Call[t.Session]:
        """Open a session; the same id again answers 200 with the session as it is."""
        return Call("POST", path("sessions"), body=fields, tenant="body")

    @operation
    def session_get(self, session_id: str) -> Call[t.Session]:
        """Return a session."""
        return Call("GET", path("sessions", session_id))

    @operation
    def session_update(self, session_id: str, **fields: Unpack[t.SessionPatch]) -> Call[t.Session]:
        """Change a session's title or metadata."""
        return Call("PATCH", path("sessions", session_id), body=fields)

    @operation
    def session_delete(self, session_id: str, **query: Unpack[t.SessionDeleteQuery]) -> Call[t.Deletion]:
        """Delete a session with its messages and all that was drawn from them."""
        return Call("DELETE", path("sessions", session_id), query)

    @operation
    def session_end(self, session_id: str, **fields: Unpack[t.Write]) -> Call[t.Session]:
        """End a session; a later message reopens it."""
        return Call("POST", path("sessions", session_id, "end"), body=fields)

    @operation
    def session_extract(self, session_id: str, **fields: Unpack[t.Write]) -> Call[t.ExtractionJob]:
        """Extract memories from a session's unread messages in the background, before those of other sessions."""
        return Call("POST", path("sessions", session_id, "extract"), body=fields)

    @operation
    def session_extraction(self, session_id: str) -> Call[t.Extraction]:
        """Return how far the extraction of a session is."""
        return Call("GET", path("sessions", session_id, "extraction"))

    @operation
    def session_forget(self, session_id: str, **fields: Unpack[t.ForgetIn]) -> Call[t.Deletion]:
        """Delete a range of a session's messages, with all that was drawn from them."""
        return Call("POST", path("sessions", session_id, "forget"), body=fields)

    @listing
    def messages_list(self, session_id: str, **query: Unpack[t.Paging]) -> Call[t.Message]:
        """List a session's messages in the order of `seq`."""
        return Call("GET", path("sessions", session_id, "messages"), query)

    @operation
    def messages_create(self, session_id: str, **fields: Unpack[t.OneOrManyIn]) -> Call[t.Messages]:
        """Store one message, or `{"messages": [...]}`; repeats of a `client_message_id` return the first row.

        One that was deleted is left out."""
        return Call("POST", path("sessions", session_id, "messages"), body=fields)

    @operation
    def session_stats(self, session_id: str) -> Call[t.Stats]:
        """Return counts and times of a session."""
        return Call("GET", path("sessions", session_id, "stats"))

    @operation
    def summary_get(self, session_id: str) -> Call[t.Summary]:
        """Return a session's summary."""
        return Call("GET", path("sessions", session_id, "summary"))

    @operation
    def summary_create(self, session_id: str, **fields: Unpack[t.SummaryOrderIn]) -> Call[t.JobId]:
        """Write the summary in the background, due or not; with a time window, of its messages alone."""
        return Call("POST", path("sessions", session_id, "summary"), body=fields)

    @operation
    def summary_update(self, session_id: str, *, if_match: str | None = None, **fields: Unpack[t.SummaryPatch]) -> Call[t.Summary]:
        """Edit the text, which locks it against rewriting, or lock and unlock it."""
        return Call("PATCH", path("sessions", session_id, "summary"), body=fields, conditions={"If-Match": if_match})

    @operation
    def summary_delete(self, session_id: str, *, if_match: str | None = None) -> Call[None]:
        """Delete the summary with its versions; its text is removed from receipts as well."""
        return Call("DELETE", path("sessions", session_id, "summary"), conditions={"If-Match": if_match})

    @operation
    def summary_restore(self, session_id: str, *, if_match: str | None = None, **fields: Unpack[t.SummaryRestoreIn]) -> Call[t.Summary]:
        """Restore a version's text, and lock the summary."""
        return Call("POST", path("sessions", session_id, "summary", "restore"), body=fields, conditions={"If-Match": if_match})

    @listing
    def summary_versions_list(self, session_id: str, **query: Unpack[t.Paging]) -> Call[t.SummaryVersion]:
        """List a summary's versions, newest first."""
        return Call("GET", path("sessions", session_id, "summary", "versions"), query)

    @listing
    def sleep_runs_list(self, **query: Unpack[t.SleepRunsListQuery]) -> Call[t.Sleep]:
        """List an actor's sleeps, newest first."""
        return Call("GET", path("sleep-runs"), query, tenant="query")

    @operation
    def sleep_runs_create(self, **fields: Unpack[t.SleepIn]) -> Call[t.WholeSleep]:
        """Run a sleep: decay, archive, refresh levels, propose merges; with `dry_run`, only say what would change."""
        return Call("POST", path("sleep-runs"), body=fields, tenant="body")

    @operation
    def sleep_run_get(self, run_id: str) -> Call[t.WholeSleep]:
        """Return a sleep with its changes; decays are listed until the actor's next sleep."""
        return Call("GET", path("sleep-runs", run_id))

    @operation
    def sleep_run_undo(self, run_id: str, **fields: Unpack[t.Reason]) -> Call[t.WholeSleep]:
        """Undo a sleep as a unit, except for memories used or curated since."""
        return Call("POST", path("sleep-runs", run_id, "undo"), body=fields)

    @listing
    def summaries_list(self, **query: Unpack[t.WhosePaging]) -> Call[t.Summary]:
        """List an actor's summaries, that of the latest session first."""
        return Call("GET", path("summaries"), query, tenant="query")

    @operation
    def summaries_digest(self, **fields: Unpack[t.DigestIn]) -> Call[t.Digest]:
        """Return a digest of an actor's trusted summaries, of a time window or a project; it is not stored."""
        return Call("POST", path("summaries", "digest"), body=fields, tenant="body")

    @operation
    def tasks_create(self, **fields: Unpack[t.TaskIn]) -> Call[t.Task]:
        """Begin a task: search its query; the memories found count as candidates."""
        return Call("POST", path("tasks"), body=fields, tenant="body")

    @operation
    def task_get(self, task_id: str) -> Call[t.Outcome]:
        """Return a task's outcome so far."""
        return Call("GET", path("tasks", task_id))

    @operation
    def task_complete(self, task_id: str, **fields: Unpack[t.CompleteIn]) -> Call[t.Outcome]:
        """Complete a task: reinforce the memories that its result used, and record a learning.

        Repeated, it returns the first outcome."""
        return Call("POST", path("tasks", task_id, "complete"), body=fields)

    @operation
    def usage_get(self, **query: Unpack[t.UsageGetQuery]) -> Call[t.Spending]:
        """Return what an agent's calls came to; of one user where one is named, or the key is bound to one."""
        return Call("GET", path("usage"), query, tenant="query")

    @listing
    def users_list(self, **query: Unpack[t.WhosePaging]) -> Call[t.User]:
        """List an agent's users, in order of their ids; with a user, or by a key of one, that user alone."""
        return Call("GET", path("users"), query, tenant="query")

    @listing
    def webhooks_list(self, **query: Unpack[t.Paging]) -> Call[t.Webhook]:
        """List the endpoints of the key's agents; a key for all agents gets those of all."""
        return Call("GET", path("webhooks"), query)

    @operation
    def webhooks_create(self, **fields: Unpack[t.WebhookIn]) -> Call[t.NewWebhook]:
        """Create an endpoint; the answer has its secret, once."""
        return Call("POST", path("webhooks"), body=fields)

    @operation
    def webhook_get(self, webhook_id: str) -> Call[t.Webhook]:
        """Return an endpoint and its state."""
        return Call("GET", path("webhooks", webhook_id))

    @operation
    def webhook_delete(self, webhook_id: str) -> Call[None]:
        """Delete an endpoint with the record of its deliveries."""
        return Call("DELETE", path("webhooks", webhook_id))

    @listing
    def webhook_deliveries(self, webhook_id: str, **query: Unpack[t.Paging]) -> Call[t.Delivery]:
        """List the deliveries of the last 30 days, the newest first."""
        return Call("GET", path("webhooks", webhook_id, "deliveries"), query)

    @operation
    def webhook_redeliver(self, webhook_id: str, delivery_id: str, **fields: Unpack[t.Write]) -> Call[t.Ordered]:
        """Send the event of a delivery again, in the background, with the same `webhook-id`."""
        return Call("POST", path("webhooks", webhook_id, "deliveries", delivery_id, "redeliver"), body=fields)

    @operation
    def webhook_enable(self, webhook_id: str, **fields: Unpack[t.Write]) -> Call[t.Webhook]:
        """Continue with a disabled or failing endpoint at once, where it stopped."""
        return Call("POST", path("webhooks", webhook_id, "enable"), body=fields)

    @operation
    def webhook_rotate(self, webhook_id: str, **fields: Unpack[t.Write]) -> Call[t.NewWebhook]:
        """Return another secret, once; the former one signs as well for a day."""
        return Call("POST", path("webhooks", webhook_id, "rotate"), body=fields)

    @operation
    def webhook_test(self, webhook_id: str, **fields: Unpack[t.Write]) -> Call[t.Ordered]:
        """Send an event of the kind `webhook.test`, in the background."""
        return Call("POST", path("webhooks", webhook_id, "test"), body=fields)
