// Generated from docs/reference/openapi.yaml by `npm run generate`.
export interface paths {
    "/api/v1/actors": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Return what a user overrides and every policy value as it holds. */
        get: operations["actor_get"];
        put?: never;
        post?: never;
        /** @description Erase a user everywhere; return how many rows of each table went, and how many stay without the user. */
        delete: operations["actor_erase"];
        options?: never;
        head?: never;
        /** @description Replace what a user overrides. */
        patch: operations["actor_update"];
        trace?: never;
    };
    "/api/v1/actors/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Return everything of a user, or of an agent itself; a body without the line `{"end": …}` broke off. */
        get: operations["actor_export"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/actors/what-if": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Return what other policy overrides of a user would do to the user's latest contexts. */
        post: operations["actor_what_if"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/agents": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description List the agents that the key may touch. */
        get: operations["agents_list"];
        put?: never;
        /** @description Create an agent; 409 where there is one with this id. */
        post: operations["agents_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/agents/{agent_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Return an agent. */
        get: operations["agent_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /** @description Change an agent's fields; what is left out stays. */
        patch: operations["agent_update"];
        trace?: never;
    };
    "/api/v1/agents/{agent_id}/what-if": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Return what a change of an agent, such as of its policies, would do to the latest contexts of its users. */
        post: operations["agent_what_if"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/changes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description List the changes of memories after a cursor, each once and in order per memory. */
        get: operations["changes_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/chat": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Store the message, ask the model, store its answer; with `stream` as server-sent events. */
        post: operations["chat"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/context": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Return what to send to the model, within the token limit, and the receipt that explains it. */
        post: operations["context_assemble"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/expectations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description List the expectations about a user's contexts, newest first. */
        get: operations["expectations_list"];
        put?: never;
        /** @description Keep an expectation, and check it; one about the same receipt and memory is replaced. */
        post: operations["expectation_keep"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/expectations/{expectation_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** @description Delete an expectation. */
        delete: operations["expectation_withdraw"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/expectations/check": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Check the newest 200 expectations about a user's contexts now, and return those that are broken. */
        post: operations["expectations_check"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/imports": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description List the imports into one actor's memory, the newest first. */
        get: operations["imports_list"];
        put?: never;
        /** @description Begin an import; its file follows in chunks. */
        post: operations["imports_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/imports/{import_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Return an import with its state, progress, report, and the cost of its extraction. */
        get: operations["import_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/imports/{import_id}/chunks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Append bytes to the file; after a break, go on at its `size`. */
        post: operations["import_append"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/imports/{import_id}/orders": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * @description Order a dry run, the import, its undo, or a pause of its extraction.
         *
         *     The undo deletes imported rows that were not changed since. A pause lets a model read nothing
         *     more of the imported conversations until it is resumed.
         */
        post: operations["import_order"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/jobs/{job_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Return where a job is on its way. */
        get: operations["job_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memories": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description List an actor's memories; with `q` the best matches of a text, without marking them as candidates. */
        get: operations["memories_list"];
        put?: never;
        /**
         * @description Write a memory; the same text again in the same namespace reinforces the existing one and answers 200.
         *
         *     So does a text of the same kind and scope that differs in case, width, punctuation or words of emphasis.
         *     Within a minute, and without an `Idempotency-Key`, a repetition is taken for a retry and reinforces nothing.
         */
        post: operations["memories_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memories/{memory_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Return a memory with its numbers and its sources. */
        get: operations["memory_get"];
        put?: never;
        post?: never;
        /**
         * @description Delete a memory with its revisions; its text is removed from receipts as well.
         *
         *     Where messages that it comes from are stored, they still say it: the answer names them, or `with_sources`
         *     deletes them too.
         */
        delete: operations["memory_delete"];
        options?: never;
        head?: never;
        /** @description Edit a memory; the edit is a revision, and a new text is locked against automatic rewriting. */
        patch: operations["memory_update"];
        trace?: never;
    };
    "/api/v1/memories/{memory_id}/approve": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Change the memory's state; 409 where its state does not allow it. */
        post: operations["memory_approve"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memories/{memory_id}/archive": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Change the memory's state; 409 where its state does not allow it. */
        post: operations["memory_archive"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memories/{memory_id}/impact": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Add an impact to a memory, and a share of it to its strength. */
        post: operations["memory_impact"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memories/{memory_id}/pin": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Change the memory's state; 409 where its state does not allow it. */
        post: operations["memory_pin"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memories/{memory_id}/reactivate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Change the memory's state; 409 where its state does not allow it. */
        post: operations["memory_reactivate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memories/{memory_id}/reject": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Change the memory's state; 409 where its state does not allow it. */
        post: operations["memory_reject"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memories/{memory_id}/restore": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Restore the curated fields to their values after a revision. */
        post: operations["memory_restore"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memories/{memory_id}/revisions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description List a memory's revisions, newest first. */
        get: operations["memory_revisions_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memories/{memory_id}/strength": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Return a memory's strength after each day's uses, impacts and sleeps, until now. */
        get: operations["memory_strength_history"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memories/{memory_id}/supersede": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description End a memory's validity and write its replacement; searches `as_of` an earlier time still find it. */
        post: operations["memory_supersede"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memories/{memory_id}/unpin": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Change the memory's state; 409 where its state does not allow it. */
        post: operations["memory_unpin"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memories/{memory_id}/used": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Strengthen a memory that was used; with a `task_id`, once for that task. */
        post: operations["memory_used"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memories/{memory_id}/what-if": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Return what a change would do to the latest contexts, without making it; refused as the change itself. */
        post: operations["memory_what_if"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memories/archive": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Archive those of the memories that are active. */
        post: operations["memories_archive"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memories/batch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Write up to 1,000 memories; an item that cannot be written keeps no other out. */
        post: operations["memories_batch"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memories/bulk": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * @description Change or delete all of an actor's memories that match filters, by a job; `dry_run` counts and shows some.
         *
         *     `relabel` changes tags, kind or namespace. What is changed between the call and the job stays as it is. All but
         *     `delete` can be undone as one batch.
         */
        post: operations["memories_bulk"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memories/bulk/{batch_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Return how far a batch is. */
        get: operations["memories_bulk_state"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memories/bulk/{batch_id}/undo": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Undo a batch by a job: what was not changed since becomes as it was; 409 for a deletion. */
        post: operations["memories_bulk_undo"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memories/candidates": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Count the memories as candidates; their strength stays as it is. */
        post: operations["memories_candidates"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memories/count": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Count an actor's memories that match these filters. */
        get: operations["memories_count"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memories/retrieve": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Return the best memories of each namespace prefix, across all sessions. */
        post: operations["memories_retrieve"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memories/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Return the best memories for a text or a vector, each with its score breakdown. */
        post: operations["memories_search"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memories/strengths": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Set the strengths of several memories; they decay from now on. */
        post: operations["memories_set_strengths"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/memories/used": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Strengthen the memories that were used; with a `task_id`, each once for that task. */
        post: operations["memories_used"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/merges": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description List an actor's merges, newest first: those that wait for a decision, or others by `state`. */
        get: operations["merges_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/merges/{merge_id}/accept": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Decide about a merge; 409 where it is decided already or its memories have changed since. */
        post: operations["merge_accept"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/merges/{merge_id}/dismiss": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Decide about a merge; 409 where it is decided already or its memories have changed since. */
        post: operations["merge_dismiss"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/merges/{merge_id}/undo": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Decide about a merge; 409 where it is decided already or its memories have changed since. */
        post: operations["merge_undo"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/merges/{merge_id}/what-if": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Return what a merge would do to the latest contexts, without making it; refused as the merge itself. */
        post: operations["merge_what_if"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/messages/{message_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** @description Delete a message with all that was drawn from it; the numbers of the others do not change. */
        delete: operations["message_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/profile": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Return what contexts are offered about a user, with the memories that each line rests on. */
        get: operations["profile_get"];
        put?: never;
        /** @description Let a model write the profile in the background, due or not; where the policy `write_profile` is on. */
        post: operations["profile_write"];
        /** @description Delete the written profile with its versions; contexts hold the memories themselves again. */
        delete: operations["profile_delete"];
        options?: never;
        head?: never;
        /** @description Edit the written text, which locks it against rewriting, or lock and unlock it. */
        patch: operations["profile_update"];
        trace?: never;
    };
    "/api/v1/profile/restore": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Restore a version's text, and lock the profile. */
        post: operations["profile_restore"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/profile/versions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description List a written profile's versions, newest first. */
        get: operations["profile_versions_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/projects": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description List an actor's projects by name, the active ones if no status is given. */
        get: operations["projects_list"];
        put?: never;
        /** @description Create a project; for an invalid name, the error proposes a valid one. */
        post: operations["projects_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/projects/{project_name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Return a project with the list of its documents. */
        get: operations["project_get"];
        put?: never;
        post?: never;
        /** @description Delete a project with its documents; for 30 days, undoing the event of it brings it back. */
        delete: operations["project_delete"];
        options?: never;
        head?: never;
        /** @description Change a project's name or description; MEMORY.md's block quote follows. */
        patch: operations["project_update"];
        trace?: never;
    };
    "/api/v1/projects/{project_name}/archive": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Take a project out of catalogs, routing and contexts; it is kept whole, and read only. */
        post: operations["project_archive"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/projects/{project_name}/documents/{document_name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * @description Return a document, and record that it was read; with If-None-Match, only whether it exists (304).
         *
         *     Its text leaves out the entries that wait for approval, unless `pending` asks for them.
         */
        get: operations["document_get"];
        /**
         * @description Replace a document's text; the former text is kept as a version.
         *
         *     Entries that wait for approval stay at its end; with `pending`, the text replaces them too.
         */
        put: operations["document_put"];
        post?: never;
        /** @description Delete a document; for 30 days, undoing the event of it brings it back. */
        delete: operations["document_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/projects/{project_name}/documents/{document_name}/backups": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Return the last three texts that a compaction replaced, newest first. */
        get: operations["document_backups_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/projects/{project_name}/documents/{document_name}/compact": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Compact a document in the background, even below its limit; pinned.md never is. */
        post: operations["document_compact"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/projects/{project_name}/documents/{document_name}/entries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description List a document's appended lines with their provenance, newest first. */
        get: operations["document_entries_list"];
        put?: never;
        /** @description Append one line to a document, which is created if necessary; return whether the line is pending. */
        post: operations["document_entries_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/projects/{project_name}/documents/{document_name}/move": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Move lines with their origins to another project, or to a new one. */
        post: operations["document_move"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/projects/{project_name}/documents/{document_name}/restore": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Restore the text of a version; backups are versions. */
        post: operations["document_restore"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/projects/{project_name}/documents/{document_name}/versions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description List a document's former texts, newest first. */
        get: operations["document_versions_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/projects/{project_name}/merge": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * @description Add a project's entries to another's documents with their origins, and archive it.
         *
         *     Messages that were routed or corrected to it count as the other's from then on.
         */
        post: operations["project_merge"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/projects/{project_name}/reactivate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Bring an archived project back; one that was merged comes back by undoing the merge. */
        post: operations["project_reactivate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/projects/catalog": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Return the numbered list of projects that a router reads, about 30 tokens each. */
        get: operations["projects_catalog"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/projects/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description List events, newest first. */
        get: operations["project_events_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/projects/events/{event_id}/undo": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Undo a merge, a move or, for 30 days, the deletion of a project or document; what was written since stays. */
        post: operations["project_event_undo"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/projects/events/daily": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Return the number of events and tokens by day, project and kind. */
        get: operations["project_events_daily"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/projects/route": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Return a message's project, the confidence and the action; the decision is stored. */
        post: operations["projects_route"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/projects/routes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description List decisions, newest first. */
        get: operations["routes_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/projects/routes/{route_id}/correct": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Correct a message's project; similar messages are routed there from now on. */
        post: operations["route_correct"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/projects/routes/{route_id}/misplaced": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description List what was written into the wrong project because of a decision that was corrected since. */
        get: operations["route_misplaced_list"];
        put?: never;
        /** @description Move it to the project that the message was corrected to. */
        post: operations["route_misplaced_move"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/receipts/{receipt_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Return why a context was what it was: every candidate, and what became of it. */
        get: operations["receipt_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/receipts/latest": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Return the newest receipt of an actor, or of one of its sessions. */
        get: operations["receipt_latest"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description List an actor's sessions, newest first. */
        get: operations["sessions_list"];
        put?: never;
        /** @description Open a session; the same id again answers 200 with the session as it is. */
        post: operations["sessions_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{session_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Return a session. */
        get: operations["session_get"];
        put?: never;
        post?: never;
        /** @description Delete a session with its messages and all that was drawn from them. */
        delete: operations["session_delete"];
        options?: never;
        head?: never;
        /** @description Change a session's title or metadata. */
        patch: operations["session_update"];
        trace?: never;
    };
    "/api/v1/sessions/{session_id}/end": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description End a session; a later message reopens it. */
        post: operations["session_end"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{session_id}/extract": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Extract memories from a session's unread messages in the background, before those of other sessions. */
        post: operations["session_extract"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{session_id}/extraction": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Return how far the extraction of a session is. */
        get: operations["session_extraction"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{session_id}/forget": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Delete a range of a session's messages, with all that was drawn from them. */
        post: operations["session_forget"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{session_id}/messages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description List a session's messages in the order of `seq`. */
        get: operations["messages_list"];
        put?: never;
        /**
         * @description Store one message, or `{"messages": [...]}`; repeats of a `client_message_id` return the first row.
         *
         *     One that was deleted is left out.
         */
        post: operations["messages_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{session_id}/stats": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Return counts and times of a session. */
        get: operations["session_stats"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{session_id}/summary": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Return a session's summary. */
        get: operations["summary_get"];
        put?: never;
        /** @description Write the summary in the background, due or not; with a time window, of its messages alone. */
        post: operations["summary_create"];
        /** @description Delete the summary with its versions; its text is removed from receipts as well. */
        delete: operations["summary_delete"];
        options?: never;
        head?: never;
        /** @description Edit the text, which locks it against rewriting, or lock and unlock it. */
        patch: operations["summary_update"];
        trace?: never;
    };
    "/api/v1/sessions/{session_id}/summary/restore": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Restore a version's text, and lock the summary. */
        post: operations["summary_restore"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/{session_id}/summary/versions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description List a summary's versions, newest first. */
        get: operations["summary_versions_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sleep-runs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description List an actor's sleeps, newest first. */
        get: operations["sleep_runs_list"];
        put?: never;
        /** @description Run a sleep: decay, archive, refresh levels, propose merges; with `dry_run`, only say what would change. */
        post: operations["sleep_runs_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sleep-runs/{run_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Return a sleep with its changes; decays are listed until the actor's next sleep. */
        get: operations["sleep_run_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sleep-runs/{run_id}/undo": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Undo a sleep as a unit, except for memories used or curated since. */
        post: operations["sleep_run_undo"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/summaries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description List an actor's summaries, that of the latest session first. */
        get: operations["summaries_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/summaries/digest": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Return a digest of an actor's trusted summaries, of a time window or a project; it is not stored. */
        post: operations["summaries_digest"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tasks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Begin a task: search its query; the memories found count as candidates. */
        post: operations["tasks_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tasks/{task_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Return a task's outcome so far. */
        get: operations["task_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tasks/{task_id}/complete": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * @description Complete a task: reinforce the memories that its result used, and record a learning.
         *
         *     Repeated, it returns the first outcome.
         */
        post: operations["task_complete"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/usage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Return what an agent's calls came to; of one user where one is named, or the key is bound to one. */
        get: operations["usage_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description List an agent's users, in order of their ids; with a user, or by a key of one, that user alone. */
        get: operations["users_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/webhooks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description List the endpoints of the key's agents; a key for all agents gets those of all. */
        get: operations["webhooks_list"];
        put?: never;
        /** @description Create an endpoint; the answer has its secret, once. */
        post: operations["webhooks_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/webhooks/{webhook_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description Return an endpoint and its state. */
        get: operations["webhook_get"];
        put?: never;
        post?: never;
        /** @description Delete an endpoint with the record of its deliveries. */
        delete: operations["webhook_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/webhooks/{webhook_id}/deliveries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** @description List the deliveries of the last 30 days, the newest first. */
        get: operations["webhook_deliveries"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Send the event of a delivery again, in the background, with the same `webhook-id`. */
        post: operations["webhook_redeliver"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/webhooks/{webhook_id}/enable": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Continue with a disabled or failing endpoint at once, where it stopped. */
        post: operations["webhook_enable"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/webhooks/{webhook_id}/rotate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Return another secret, once; the former one signs as well for a day. */
        post: operations["webhook_rotate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/webhooks/{webhook_id}/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** @description Send an event of the kind `webhook.test`, in the background. */
        post: operations["webhook_test"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description A user's overrides, and every policy value in effect for that user. */
        ActorOut: {
            agent_id: string;
            user_id: string;
            policy: {
                [key: string]: unknown;
            };
            effective_policy: {
                [key: string]: unknown;
            };
        };
        /** @description Policy overrides of a user that are not stored. */
        ActorWhatIfInRequest: {
            policy: unknown;
            agent_id: string;
            user_id?: string;
        };
        /** @description An entry of a context, as in its receipt, and the number of contexts. */
        AffectedItemOut: {
            layer: string;
            source_id: string | null;
            /** @description What a line of a written profile, whose id is `source_id`, rests on; null for anything else. */
            memory_ids?: string[] | null;
            /** @description Empty where the text was rejected or deleted since. */
            excerpt: string;
            tokens: number;
            /** Format: double */
            relevance: number | null;
            /** Format: double */
            final_score: number | null;
            score_breakdown: components["schemas"]["ScoreBreakdownOut"] | null;
            included: boolean;
            reason: string;
            contexts: number;
        };
        /** @description A new agent. */
        AgentInRequest: {
            name?: string;
            language?: components["schemas"]["LanguageEnum"];
            system_prompt?: string;
            domain?: string;
            related_domains?: string[];
            current_project?: string;
            fixed_user_id?: string;
            policy?: unknown;
            strategies?: components["schemas"]["StrategiesInRequest"];
            topics_include?: string[];
            topics_exclude?: string[];
            retrieval_config?: unknown;
            agent_id: string;
        };
        /** @description An agent; `strategies` has every strategy, `policy` only what differs from the defaults. */
        AgentOut: {
            agent_id: string;
            name?: string;
            language?: components["schemas"]["LanguageEnum"];
            system_prompt?: string;
            domain?: string;
            related_domains?: string[];
            current_project?: string;
            /** @description Owner mode: everything is stored for this one user. */
            fixed_user_id?: string;
            /** @description Values that differ from the defaults. */
            policy?: unknown;
            readonly strategies: {
                [key: string]: boolean;
            };
            topics_include?: string[];
            topics_exclude?: string[];
            /** @description Namespace prefixes; empty: the defaults. */
            retrieval_config?: unknown;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
        };
        AgentPage: {
            /** Format: uri */
            next: string | null;
            /** Format: uri */
            previous: string | null;
            results: components["schemas"]["AgentOut"][];
        };
        /** @description A change of an agent that is not made. */
        AgentWhatIfInRequest: {
            name?: string;
            language?: components["schemas"]["LanguageEnum"];
            system_prompt?: string;
            domain?: string;
            related_domains?: string[];
            current_project?: string;
            fixed_user_id?: string;
            policy?: unknown;
            strategies?: components["schemas"]["StrategiesInRequest"];
            topics_include?: string[];
            topics_exclude?: string[];
            retrieval_config?: unknown;
        };
        /** @description A document with a line appended; `pending`: the line stays out of contexts until it is approved. */
        AppendedOut: {
            /** Format: uuid */
            readonly id: string;
            name: string;
            text?: string;
            version?: number;
            token_count?: number;
            pending_entries: number;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
            status: components["schemas"]["EntryStatusEnum"];
        };
        /** @description Reason of a curated change; stored in the revision and the audit trail. */
        ArchiveInRequest: {
            /** @default  */
            reason?: string;
            ids: string[];
        };
        /** @description The part of a request that a receipt keeps to repeat it; no `project` where none was named. */
        AskedOut: {
            author?: string;
            project?: string | null;
            perspective: string | null;
            format: string;
            options: {
                [key: string]: unknown;
            };
        };
        /** @description Several messages to store at once, in their order. */
        BatchInRequest: {
            messages: components["schemas"]["MessageInRequest"][];
        };
        /** @description One block of a message: text, an image or a file, a call of a tool or its result, thinking. */
        BlockInRequest: {
            type: components["schemas"]["BlockTypeEnum"];
            text?: string;
            name?: string;
            media_type?: string;
            /** Format: uri */
            url?: string;
            /** @description OpenAI's form of an image: `{"url": …}`. */
            image_url?: unknown;
            id?: string;
            input?: unknown;
            tool_use_id?: string;
            /** @description Of a result: a text, or blocks of text and images. */
            content?: unknown;
            is_error?: boolean | null;
            thinking?: string;
            signature?: string;
            /** @description Not kept. */
            citations?: unknown;
            /** @description Not kept. */
            caller?: unknown;
            /** @description Not kept. */
            toolset_name?: unknown;
            /** @description Not kept. */
            cache_control?: unknown;
            data?: string;
            /** @description Anthropic's form of an image. */
            source?: unknown;
        };
        /**
         * @description * `text` - text
         *     * `image` - image
         *     * `image_url` - image_url
         *     * `file` - file
         *     * `tool_use` - tool_use
         *     * `tool_result` - tool_result
         *     * `thinking` - thinking
         *     * `redacted_thinking` - redacted_thinking
         * @enum {string}
         */
        BlockTypeEnum: "text" | "image" | "image_url" | "file" | "tool_use" | "tool_result" | "thinking" | "redacted_thinking";
        /** @description A change of all memories that match filters. With `dry_run` nothing changes. */
        BulkInRequest: {
            agent_id: string;
            user_id?: string;
            /** @default active */
            status?: components["schemas"]["BulkInStatusEnum"];
            kind?: components["schemas"]["MemoryKindEnum"][];
            namespace?: string;
            /** @description All of them. */
            tag?: string[];
            trust?: components["schemas"]["TrustEnum"];
            channel?: string;
            /** @description Part of the content, in any case. */
            text?: string;
            pinned?: boolean | null;
            /** @description A JSON object that the metadata contain, or whose operators ($gt, …) hold. */
            metadata?: string;
            /**
             * @description Whether superseded and expired ones are included.
             * @default false
             */
            ended?: boolean;
            as_of?: string;
            /** Format: date-time */
            created_after?: string;
            /** Format: date-time */
            created_before?: string;
            /** Format: date-time */
            updated_after?: string;
            /** Format: date-time */
            updated_before?: string;
            /** Format: date-time */
            used_after?: string;
            /** Format: date-time */
            used_before?: string;
            /** Format: double */
            min_strength?: number;
            /** Format: double */
            max_strength?: number;
            /** @default  */
            reason?: string;
            verb: components["schemas"]["BulkInVerbEnum"];
            /** @description Of `relabel`, which requires it. */
            labels?: components["schemas"]["LabelsInRequest"];
            /** @default false */
            dry_run?: boolean;
            /** @description What a dry run counted; `delete` requires it. Else 409. */
            expected_count?: number;
            source?: components["schemas"]["MemorySourceEnum"][];
        };
        /**
         * @description * `active` - active
         *     * `pending` - pending
         *     * `archived` - archived
         *     * `rejected` - rejected
         *     * `all` - all
         * @enum {string}
         */
        BulkInStatusEnum: "active" | "pending" | "archived" | "rejected" | "all";
        /**
         * @description * `pin` - pin
         *     * `unpin` - unpin
         *     * `archive` - archive
         *     * `reactivate` - reactivate
         *     * `reject` - reject
         *     * `relabel` - relabel
         *     * `delete` - delete
         * @enum {string}
         */
        BulkInVerbEnum: "pin" | "unpin" | "archive" | "reactivate" | "reject" | "relabel" | "delete";
        /** @description Number of memories that change, and the newest of them; `batch` is null for a dry run. */
        BulkOut: {
            /** Format: uuid */
            batch: string | null;
            count: number;
            sample: components["schemas"]["MemoryOut"][];
        };
        /** @description Progress of a batch. `verb` is `undo` once its undo was ordered; `changed` counts what it changed. */
        BulkStateOut: {
            /** Format: uuid */
            batch: string;
            verb: string;
            /** @description Of its job: queued, running, done, failed or dead. */
            state: string;
            done: number;
            total: number | null;
            changed: number;
        };
        /** @description A call of a tool; the client sends its result as one of `tool_results`. */
        CalledOut: {
            id: string;
            name: string;
            input: {
                [key: string]: unknown;
            };
        };
        /** @description A change that a sleep made, or would make, to a memory. */
        ChangeOut: {
            /** Format: uuid */
            memory_id: string;
            change: string;
            why: string;
        };
        /** @description Changes, oldest first, and the cursor to ask with next. */
        ChangesOut: {
            results: components["schemas"]["MemoryChangeOut"][];
            cursor: number;
            has_more: boolean;
        };
        /** @description A message that a model is to answer. */
        ChatInRequest: {
            agent_id: string;
            user_id?: string;
            /** Format: uuid */
            session_id?: string | null;
            /** @default api */
            channel?: string;
            /**
             * @description A project's name, or `auto` to have it found. Left out: found where the policy `project_routing` is `auto`, else the agent's `current_project`. `null`: no project at all.
             * @default
             */
            project?: string | null;
            perspective?: string | null;
            message?: string | components["schemas"]["BlockInRequest"][];
            /** @default  */
            author?: string;
            tools?: components["schemas"]["ToolInRequest"][];
            /** @description In place of a message: what the tools returned that the last answer called. */
            tool_results?: components["schemas"]["ToolResultInRequest"][];
            /** @default false */
            stream?: boolean;
            /** @default true */
            memory?: boolean;
            /**
             * @description False: answered with what is remembered, and nothing is stored.
             * @default true
             */
            store?: boolean;
            options?: components["schemas"]["OptionsInRequest"];
        };
        /** @description An answer, whole and stored. */
        ChatOut: {
            /** @description `ok`, `tool_use` where the model waits for results, or `truncated`. */
            status: string;
            model: string;
            text: string;
            tool_calls: components["schemas"]["CalledOut"][];
            /**
             * Format: uuid
             * @description null, as the ids below, where nothing is stored.
             */
            session_id: string | null;
            /**
             * Format: uuid
             * @description The user's message.
             */
            message_id: string | null;
            /**
             * Format: uuid
             * @description The stored answer.
             */
            answer_id: string | null;
            /** @description null where memory is off. */
            context_metadata: components["schemas"]["ContextMetadataOut"] | null;
            /** @description null if it was not requested. */
            routing: components["schemas"]["RoutingOut"] | null;
            /** Format: uuid */
            receipt_id: string | null;
            usage: components["schemas"]["UsageOut"];
        };
        /** @description The user of whom the expectations are checked. */
        CheckInRequest: {
            agent_id: string;
            user_id?: string;
        };
        CheckedOut: {
            kept: number;
            broken: components["schemas"]["ExpectationOut"][];
        };
        /** @description Some bytes of the file. */
        ChunkInRequest: {
            /** Format: int64 */
            offset: number;
            /** @description The bytes in base64. */
            content: string;
        };
        /** @description A context that would change; one side is null where the context is refused, such as for its limit. */
        ComparedContextOut: {
            /** Format: uuid */
            receipt_id: string;
            user_id: string;
            /** Format: date-time */
            created_at: string;
            query: string;
            before: components["schemas"]["ContextSideOut"] | null;
            after: components["schemas"]["ContextSideOut"] | null;
        };
        /** @description The result of a task. `used_memory_ids` takes precedence over use detection. */
        CompleteInRequest: {
            result: unknown;
            used_memory_ids?: string[] | null;
            perspective?: string | null;
            learning_content?: string | null;
            learning_text?: string | null;
            /** @default false */
            extract_learning?: boolean;
            impact_type?: (components["schemas"]["ImpactTypeEnum"] | components["schemas"]["NullEnum"]) | null;
            /** @default false */
            run_sleep_phase?: boolean;
        };
        /**
         * @description * `anthropic` - anthropic
         *     * `openai` - openai
         *     * `text` - text
         * @enum {string}
         */
        ContextFormatEnum: "anthropic" | "openai" | "text";
        /** @description A request for a context. */
        ContextInRequest: {
            agent_id: string;
            user_id?: string;
            /** Format: uuid */
            session_id?: string | null;
            /**
             * @description A project's name, or `auto` to have it found. Left out: found where the policy `project_routing` is `auto`, else the agent's `current_project`. `null`: no project at all.
             * @default
             */
            project?: string | null;
            message: string | components["schemas"]["BlockInRequest"][];
            /** @default  */
            author?: string;
            perspective?: string | null;
            /** @default anthropic */
            format?: components["schemas"]["ContextFormatEnum"];
            /** @default false */
            exact_tokens?: boolean;
            options?: components["schemas"]["OptionsInRequest"];
        };
        /** @description Figures of what is in the context. */
        ContextMetadataOut: {
            working_memory_count: number;
            semantic_memory_count: number;
            recall_count: number;
            pinned_count: number;
            profile_count: number;
            has_session_summary: boolean;
            project: string | null;
            total_tokens: number;
            token_limit: number;
            compression_applied: boolean;
            /** Format: double */
            assembly_latency_ms: number;
            /** @description As the provider counts them, where that was asked for. */
            exact_tokens?: number | null;
            degraded: string[];
            /** @description What the message asks to be forgotten; nothing was recalled for it. */
            forget_request?: string;
            layer_budgets?: components["schemas"]["ShareUseOut"][];
            /** @description Messages that the client showed and the token limit left out. */
            trimmed_messages?: number;
        };
        /** @description A context, ready for a provider. */
        ContextOut: {
            /** @description A text, or blocks with cache marks; null in the OpenAI form. */
            system: unknown;
            messages: {
                [key: string]: unknown;
            }[];
            metadata: components["schemas"]["ContextMetadataOut"];
            /** @description null if it was not requested. */
            routing: components["schemas"]["RoutingOut"] | null;
            /** Format: uuid */
            receipt_id: string | null;
        };
        /** @description One of the two contexts; its entries that the other does not have, or has with another text. */
        ContextSideOut: {
            total_tokens: number;
            token_limit: number;
            /** @description Whether the changed memory enters. */
            holds_memory: boolean;
            only: components["schemas"]["ReceiptItemOut"][];
        };
        /** @description Correct project of a message; null if it belongs to none. */
        CorrectionInRequest: {
            /** @default  */
            reason?: string;
            project: string | null;
        };
        /** @description Upper bound of calls, tokens and cost to extract from an import's new conversations. */
        CostOut: {
            model: string;
            calls: number;
            input_tokens: number;
            output_tokens: number;
            /**
             * Format: double
             * @description null: no price known (MEMORYHUB_LLM_PRICES).
             */
            dollars: number | null;
        };
        CountOut: {
            count: number;
        };
        /** @description The fields that people may edit; all are optional. */
        CuratedInRequest: {
            content?: string;
            kind?: components["schemas"]["MemoryKindEnum"];
            namespace?: string;
            tags?: string[];
            scope_level?: components["schemas"]["MemoryScopeEnum"];
            scope_domain?: string;
            scope_project?: string;
            learnings?: {
                [key: string]: string;
            };
            metadata?: unknown;
            cues?: string;
            pinned?: boolean;
            /** Format: double */
            confidence?: number | null;
            /** Format: date-time */
            valid_from?: string | null;
            /** Format: date-time */
            valid_to?: string | null;
        };
        /** @description Events of one kind of a project on one day of the user's time zone. */
        DayOut: {
            /** Format: date */
            day: string;
            project: string;
            kind: string;
            events: number;
            tokens: number;
        };
        /** @description Sums by day. */
        DaysOut: {
            results: components["schemas"]["DayOut"][];
        };
        /** @description Count the rows that a deletion deletes, by kind. */
        DeletionOut: {
            /** Format: uuid */
            session_id: string;
            dry_run: boolean;
            /** @description Number of rows by kind: `messages`, `memories`, `summaries`, `entries` and others. `…_for_review` rest on other messages too: they lost a source, and wait for approval. */
            counts: {
                [key: string]: number;
            };
            /**
             * Format: uuid
             * @description The job that deletes a long session; it has no counts.
             */
            job_id: string | null;
        };
        /** @description An attempt to deliver an event: the answer's status, or in `error` why there was none. */
        DeliveryOut: {
            /** Format: uuid */
            readonly id: string;
            kind: string;
            /** @description The answer's status; empty: no answer. */
            status?: number | null;
            error?: string;
            duration_ms?: number;
            /** Format: date-time */
            at: string;
        };
        DeliveryPage: {
            /** Format: uri */
            next: string | null;
            /** Format: uri */
            previous: string | null;
            results: components["schemas"]["DeliveryOut"][];
        };
        /** @description Sessions of a digest, by time window or project. */
        DigestInRequest: {
            agent_id: string;
            user_id?: string;
            /** Format: date-time */
            from?: string | null;
            /** Format: date-time */
            to?: string | null;
            project?: string | null;
        };
        /** @description One text about several sessions. */
        DigestOut: {
            digest: string;
            generator: string;
            model: string;
            session_ids: string[];
            /** @description How many sessions did not fit, the oldest. */
            left_out: number;
            /** Format: date-time */
            start_time: string;
            /** Format: date-time */
            end_time: string;
        };
        /** @description Lines that a document gains, and those it holds already. */
        DocumentChangeOut: {
            name: string;
            added: number;
            repeated: number;
            is_new: boolean;
        };
        /** @description A document without its text: `title` is its first line where that is a heading, `size` its bytes in UTF-8. */
        DocumentHeadOut: {
            name: string;
            readonly title: string;
            readonly size: number;
            version?: number;
            token_count?: number;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
        };
        /** @description Whole text of a document. */
        DocumentInRequest: {
            /** @default  */
            reason?: string;
            text: string;
        };
        /** @description A document; `token_count` is by o200k, with the `pending_entries` that wait for approval. */
        DocumentOut: {
            /** Format: uuid */
            readonly id: string;
            name: string;
            text?: string;
            version?: number;
            token_count?: number;
            pending_entries: number;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
        };
        /** @description Version to restore. */
        DocumentRestoreInRequest: {
            /** @default  */
            reason?: string;
            number: number;
        };
        /**
         * @description * `create` - create
         *     * `edit` - edit
         *     * `append` - append
         *     * `compaction` - compaction
         *     * `restore` - restore
         *     * `sync` - sync
         *     * `merge` - merge
         *     * `move` - move
         * @enum {string}
         */
        DocumentVersionKindEnum: "create" | "edit" | "append" | "compaction" | "restore" | "sync" | "merge" | "move";
        /** @description Former text of a document, with how, by whom, why and when it was replaced. */
        DocumentVersionOut: {
            /** Format: uuid */
            readonly id: string;
            number: number;
            text?: string;
            kind: components["schemas"]["DocumentVersionKindEnum"];
            readonly by: {
                [key: string]: string;
            };
            reason?: string;
            /** Format: date-time */
            created_at: string;
        };
        DocumentVersionPage: {
            /** Format: uri */
            next: string | null;
            /** Format: uri */
            previous: string | null;
            results: components["schemas"]["DocumentVersionOut"][];
        };
        /** @description The effect of a change on the latest contexts, were they assembled now. Nothing was changed. */
        EffectOut: {
            /** @description Number of contexts that were compared, at most 40. */
            contexts: number;
            /** @description Contexts that the memory enters as the data is. */
            held_before: number;
            /** @description Contexts that it enters after the change. */
            held_after: number;
            /** @description Other entries that come. */
            brings_in: components["schemas"]["AffectedItemOut"][];
            /** @description Other entries that are then missing. */
            pushes_out: components["schemas"]["AffectedItemOut"][];
            /** @description Without the scope `read`, no text is listed. */
            changed: components["schemas"]["ComparedContextOut"][];
        };
        /** @description One line for a document, with its channel. */
        EntryInRequest: {
            text: string;
            /** @default false */
            pinned?: boolean;
            /** @default api */
            channel?: string;
        };
        /**
         * @description An appended line with its provenance.
         *
         *     `text` is null where a later version of the document does not hold the line; `text_digest` is the SHA-256 of the
         *     line without its bullet.
         */
        EntryOut: {
            /** Format: uuid */
            readonly id: string;
            readonly text: string | null;
            readonly text_digest: string;
            pinned?: boolean;
            source?: unknown;
            trust?: components["schemas"]["TrustEnum"];
            /** Format: date-time */
            created_at: string;
        };
        EntryPage: {
            /** Format: uri */
            next: string | null;
            /** Format: uri */
            previous: string | null;
            results: components["schemas"]["EntryOut"][];
        };
        /**
         * @description * `active` - active
         *     * `pending` - pending
         * @enum {string}
         */
        EntryStatusEnum: "active" | "pending";
        /** @description Number of rows deleted and anonymised, by table; `remains` names copies that an erasure cannot reach. */
        ErasedOut: {
            erased: {
                [key: string]: number;
            };
            anonymised: {
                [key: string]: number;
            };
            remains: string[];
            /** Format: uuid */
            vacuum_job_id: string | null;
        };
        /** @description Event of a project. */
        EventOut: {
            /** Format: uuid */
            readonly id: string;
            project: string;
            kind: components["schemas"]["ProjectEventKindEnum"];
            tokens?: number;
            outcome?: string;
            details?: unknown;
            readonly undoable: boolean;
            /** Format: date-time */
            undone_at?: string | null;
            /** Format: date-time */
            created_at: string;
        };
        EventPage: {
            /** Format: uri */
            next: string | null;
            /** Format: uri */
            previous: string | null;
            results: components["schemas"]["EventOut"][];
        };
        /** @description Serializer that rejects unknown keys, so that a misspelt option is an error. */
        ExpectationInRequest: {
            /**
             * Format: uuid
             * @description The context that shall, or shall not, have the memory; assembled again in a check.
             */
            receipt_id: string;
            /** Format: uuid */
            memory_id: string;
            /**
             * @description Whether the memory must be in the context; else it must not.
             * @default true
             */
            wanted?: boolean;
        };
        ExpectationOut: {
            /** Format: uuid */
            readonly id: string;
            user_id: string;
            /** Format: uuid */
            readonly receipt_id: string;
            /** Format: uuid */
            memory_id: string;
            wanted: boolean;
            query: string;
            state: components["schemas"]["ExpectationOutStateEnum"];
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            checked_at: string;
            /**
             * Format: date-time
             * @description The last check at which it was kept.
             */
            kept_at?: string | null;
            /**
             * Format: date-time
             * @description The check that found it broken.
             */
            broken_at?: string | null;
        };
        /**
         * @description * `kept` - kept
         *     * `broken` - broken
         * @enum {string}
         */
        ExpectationOutStateEnum: "kept" | "broken";
        ExpectationPage: {
            /** Format: uri */
            next: string | null;
            /** Format: uri */
            previous: string | null;
            results: components["schemas"]["ExpectationOut"][];
        };
        ExtractionJobOut: {
            /** Format: uuid */
            job_id: string;
        };
        /** @description The state of a session's extraction; `is_complete`: every strategy that is on has read every message. */
        ExtractionOut: {
            /** Format: uuid */
            session_id: string;
            message_count: number;
            is_complete: boolean;
            strategies: components["schemas"]["StrategyStateOut"][];
            /**
             * Format: uuid
             * @description The latest job of the actor, if any is kept.
             */
            job_id: string | null;
            job_state: string | null;
        };
        /** @description Serializer that rejects unknown keys, so that a misspelt option is an error. */
        FiltersInRequest: {
            kind?: components["schemas"]["MemoryKindEnum"][];
            namespace?: string;
            tags?: string[];
            status?: components["schemas"]["MemoryStatusEnum"];
            /** Format: date-time */
            created_after?: string;
            /** Format: date-time */
            created_before?: string;
            as_of?: string;
            metadata?: unknown;
        };
        /** @description A range of a session's messages, both ends included. */
        ForgetInRequest: {
            /** @default  */
            reason?: string;
            from_seq: number;
            to_seq: number;
            /** @default false */
            dry_run?: boolean;
        };
        /** @description A memory with its scores. */
        FoundMemoryOut: {
            memory: components["schemas"]["MemoryOut"];
            /** Format: double */
            similarity: number | null;
            /** Format: double */
            final_score: number;
            score_breakdown: components["schemas"]["ScoreBreakdownOut"];
        };
        /** @description A memory or, with `include_messages`, a past message, with its scores. */
        FoundOut: {
            memory?: components["schemas"]["MemoryOut"];
            message?: components["schemas"]["MessageOut"];
            /** Format: double */
            similarity: number | null;
            /** Format: double */
            final_score: number;
            score_breakdown: components["schemas"]["ScoreBreakdownOut"];
        };
        /** @description The function that a model calls, in OpenAI's form. */
        FunctionInRequest: {
            name: string;
            /** @description JSON of an object. */
            arguments: string;
        };
        /**
         * @description * `llm` - llm
         *     * `extractive` - extractive
         *     * `person` - person
         * @enum {string}
         */
        GeneratorEnum: "llm" | "extractive" | "person";
        HistoryOut: {
            results: components["schemas"]["PointOut"][];
        };
        /** @description Serializer that rejects unknown keys, so that a misspelt option is an error. */
        IdsInRequest: {
            ids: string[];
        };
        /** @description An impact of a memory beyond being used. */
        ImpactInRequest: {
            impact_type: components["schemas"]["ImpactTypeEnum"];
        };
        /**
         * @description * `user_positive` - user_positive
         *     * `task_success` - task_success
         *     * `prevented_error` - prevented_error
         * @enum {string}
         */
        ImpactTypeEnum: "user_positive" | "task_success" | "prevented_error";
        /**
         * @description * `honcho` - honcho
         *     * `hindsight` - hindsight
         *     * `deepseek` - deepseek
         *     * `chatgpt` - chatgpt
         *     * `claude` - claude
         *     * `openwebui` - openwebui
         *     * `librechat` - librechat
         *     * `gemini` - gemini
         *     * `grok` - grok
         *     * `mistral` - mistral
         *     * `coding-agents` - coding-agents
         *     * `markdown` - markdown
         *     * `letta` - letta
         *     * `mem0` - mem0
         *     * `table` - table
         * @enum {string}
         */
        ImportFormatEnum: "honcho" | "hindsight" | "deepseek" | "chatgpt" | "claude" | "openwebui" | "librechat" | "gemini" | "grok" | "mistral" | "coding-agents" | "markdown" | "letta" | "mem0" | "table";
        /** @description A new import; without a `user_id` the file must name the user of each memory (mem0). */
        ImportInRequest: {
            agent_id: string;
            user_id?: string;
            /** @description As it was downloaded; its ending counts. */
            file_name: string;
            /**
             * @description Recognised if left out.
             *
             *     * `honcho` - honcho
             *     * `hindsight` - hindsight
             *     * `deepseek` - deepseek
             *     * `chatgpt` - chatgpt
             *     * `claude` - claude
             *     * `openwebui` - openwebui
             *     * `librechat` - librechat
             *     * `gemini` - gemini
             *     * `grok` - grok
             *     * `mistral` - mistral
             *     * `coding-agents` - coding-agents
             *     * `markdown` - markdown
             *     * `letta` - letta
             *     * `mem0` - mem0
             *     * `table` - table
             */
            format?: components["schemas"]["ImportFormatEnum"];
            /** @description Columns of a CSV or JSON Lines file: `content=text,created_at=date`. Meanings: content, role, session, title, created_at, user_id, id, kind, tags. */
            columns?: string;
        };
        /**
         * @description The step to take; a `format` corrects the one that was recognised.
         *
         *     `preview`, `run` and `undo` are jobs; `pause` and `resume` apply to the extraction of what was imported.
         */
        ImportOrderInRequest: {
            verb: components["schemas"]["ImportOrderInVerbEnum"];
            format?: components["schemas"]["ImportFormatEnum"];
        };
        /**
         * @description * `preview` - preview
         *     * `run` - run
         *     * `undo` - undo
         *     * `pause` - pause
         *     * `resume` - resume
         * @enum {string}
         */
        ImportOrderInVerbEnum: "preview" | "run" | "undo" | "pause" | "resume";
        /**
         * @description An import; `report` counts what is, or would be, new (`made`), here already (`known`) and refused.
         *
         *     `report.dropped` has by reason the count and examples of what is left out by design.
         */
        ImportOut: {
            /** Format: uuid */
            readonly id: string;
            agent_id: string;
            user_id: string;
            /** @description Empty until it is recognised. */
            format: string;
            file_name?: string;
            /** Format: int64 */
            size?: number;
            readonly state: components["schemas"]["ImportStateEnum"];
            /** @description Bytes read of the file's, while a job runs. */
            readonly progress: components["schemas"]["ProgressOut"] | null;
            report: {
                [key: string]: unknown;
            };
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            previewed_at?: string | null;
            /** Format: date-time */
            imported_at?: string | null;
            /** Format: date-time */
            undone_at?: string | null;
        };
        ImportPage: {
            /** Format: uri */
            next: string | null;
            /** Format: uri */
            previous: string | null;
            results: components["schemas"]["ImportOut"][];
        };
        /**
         * @description * `uploading` - uploading
         *     * `previewing` - previewing
         *     * `importing` - importing
         *     * `undoing` - undoing
         *     * `previewed` - previewed
         *     * `imported` - imported
         *     * `undone` - undone
         *     * `failed` - failed
         * @enum {string}
         */
        ImportStateEnum: "uploading" | "previewing" | "importing" | "undoing" | "previewed" | "imported" | "undone" | "failed";
        ItemErrorOut: {
            field: string | null;
            code: string;
            detail: string;
        };
        /** @description Job that was enqueued. */
        JobIdOut: {
            /** Format: uuid */
            job_id: string;
        };
        /** @description A job; `failed` would fail again, `dead` was given up after three attempts. */
        JobOut: {
            /** Format: uuid */
            id: string;
            kind: string;
            state: components["schemas"]["JobStateEnum"];
            attempts: number;
            /** @description What went wrong last; empty where nothing did. */
            error: string;
            progress: components["schemas"]["ProgressOut"] | null;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            finished_at: string | null;
        };
        /**
         * @description * `queued` - queued
         *     * `running` - running
         *     * `done` - done
         *     * `failed` - failed
         *     * `dead` - dead
         * @enum {string}
         */
        JobStateEnum: "queued" | "running" | "done" | "failed" | "dead";
        /** @description A day's calls that one API key caused. */
        KeyUsageRow: {
            /** Format: date */
            day: string;
            calls: number;
            failures: number;
            input_tokens: number;
            output_tokens: number;
            /**
             * Format: double
             * @description US dollars; null: no price known.
             */
            cost: number | null;
            /**
             * Format: uuid
             * @description Null: no key caused them.
             */
            key_id: string | null;
            /** @description The key's name; its id where it is deleted, empty without a key. */
            name: string;
        };
        /**
         * @description * `memory.created` - memory.created
         *     * `memory.changed` - memory.changed
         *     * `memory.ended` - memory.ended
         *     * `memory.waiting` - memory.waiting
         *     * `memory.decided` - memory.decided
         *     * `memory.forgotten` - memory.forgotten
         *     * `session.ended` - session.ended
         *     * `session.summarised` - session.summarised
         *     * `project.routed_low` - project.routed_low
         *     * `document.compacted` - document.compacted
         *     * `sleep.finished` - sleep.finished
         *     * `import.finished` - import.finished
         *     * `expectation.broken` - expectation.broken
         *     * `cap.reached` - cap.reached
         * @enum {string}
         */
        KindsEnum: "memory.created" | "memory.changed" | "memory.ended" | "memory.waiting" | "memory.decided" | "memory.forgotten" | "session.ended" | "session.summarised" | "project.routed_low" | "document.compacted" | "sleep.finished" | "import.finished" | "expectation.broken" | "cap.reached";
        /** @description New tags, kind and namespace; `{actorId}` is filled in. */
        LabelsInRequest: {
            add_tags?: string[];
            remove_tags?: string[];
            kind?: components["schemas"]["MemoryKindEnum"];
            namespace?: string;
        };
        /**
         * @description * `en` - English
         *     * `ja` - Japanese
         * @enum {string}
         */
        LanguageEnum: "en" | "ja";
        /** @description A report of use of several memories. */
        ManyUsedInRequest: {
            perspective?: string | null;
            task_id?: string | null;
            ids: string[];
        };
        /** @description Memories to write, each as `POST memories` takes it, without agent and user. */
        MemoriesInRequest: {
            agent_id: string;
            user_id?: string;
            memories: components["schemas"]["MemoryItemInRequest"][];
        };
        /** @description An answer for each item, in their order. */
        MemoriesWrittenOut: {
            results: components["schemas"]["WrittenOut"][];
        };
        /** @description A change of a memory. `version` is the memory's after it; `user_id` is null where the user was erased since. */
        MemoryChangeOut: {
            /** @description The cursor behind this change. */
            readonly id: number;
            agent_id: string;
            readonly user_id: string | null;
            /** Format: uuid */
            memory_id: string;
            change: components["schemas"]["MemoryFeedChangeEnum"];
            version: number;
            /** Format: date-time */
            at: string;
        };
        /** @description A deleted memory. */
        MemoryDeletionOut: {
            /** @description Messages that still say it; `DELETE messages/{message_id}`. */
            source_message_ids: string[];
            /** @description Number of deleted rows by kind. */
            counts: {
                [key: string]: number;
            };
        };
        /**
         * @description * `created` - created
         *     * `changed` - changed
         *     * `superseded` - superseded
         *     * `archived` - archived
         *     * `rejected` - rejected
         *     * `erased` - erased
         * @enum {string}
         */
        MemoryFeedChangeEnum: "created" | "changed" | "superseded" | "archived" | "rejected" | "erased";
        /** @description A memory to write. */
        MemoryInRequest: {
            content: string;
            kind?: components["schemas"]["MemoryKindEnum"];
            namespace?: string;
            tags?: string[];
            scope_level?: components["schemas"]["MemoryScopeEnum"];
            scope_domain?: string;
            scope_project?: string;
            learnings?: {
                [key: string]: string;
            };
            metadata?: unknown;
            cues?: string;
            pinned?: boolean;
            /** Format: double */
            confidence?: number | null;
            /** Format: date-time */
            valid_from?: string | null;
            /** Format: date-time */
            valid_to?: string | null;
            perspective?: string;
            learning?: string;
            /** Format: double */
            strength?: number;
            strength_by_perspective?: {
                [key: string]: number;
            };
            embedding?: number[];
            source_message_ids?: string[];
            channel?: string;
            agent_id: string;
            user_id?: string;
            source?: components["schemas"]["MemorySourceEnum"];
        };
        /** @description A memory to write, of an actor that is named beside it. */
        MemoryItemInRequest: {
            content: string;
            kind?: components["schemas"]["MemoryKindEnum"];
            namespace?: string;
            tags?: string[];
            scope_level?: components["schemas"]["MemoryScopeEnum"];
            scope_domain?: string;
            scope_project?: string;
            learnings?: {
                [key: string]: string;
            };
            metadata?: unknown;
            cues?: string;
            pinned?: boolean;
            /** Format: double */
            confidence?: number | null;
            /** Format: date-time */
            valid_from?: string | null;
            /** Format: date-time */
            valid_to?: string | null;
            perspective?: string;
            learning?: string;
            /** Format: double */
            strength?: number;
            strength_by_perspective?: {
                [key: string]: number;
            };
            embedding?: number[];
            source_message_ids?: string[];
            channel?: string;
            source?: components["schemas"]["MemorySourceEnum"];
        };
        /**
         * @description * `fact` - fact
         *     * `preference` - preference
         *     * `summary` - summary
         *     * `episode` - episode
         *     * `reflection` - reflection
         *     * `learning` - learning
         *     * `decision` - decision
         *     * `note` - note
         * @enum {string}
         */
        MemoryKindEnum: "fact" | "preference" | "summary" | "episode" | "reflection" | "learning" | "decision" | "note";
        /** @description A memory with its numbers and its sources. */
        MemoryOut: {
            /** Format: uuid */
            readonly id: string;
            readonly agent_id: string;
            readonly user_id: string;
            content: string;
            namespace: string;
            kind?: components["schemas"]["MemoryKindEnum"];
            tags?: string[];
            scope_level?: components["schemas"]["MemoryScopeEnum"];
            scope_domain?: string;
            scope_project?: string;
            status?: components["schemas"]["MemoryStatusEnum"];
            pinned?: boolean;
            /** @description A person edited it; nothing rewrites it automatically. */
            locked?: boolean;
            source?: components["schemas"]["MemorySourceEnum"];
            channel?: string;
            trust?: components["schemas"]["TrustEnum"];
            /** Format: double */
            confidence?: number | null;
            /** Format: double */
            readonly strength: number;
            readonly strength_by_perspective: {
                [key: string]: number;
            };
            readonly access_count: number;
            readonly candidate_count: number;
            /** Format: date-time */
            readonly last_accessed_at: string;
            /** Format: double */
            readonly impact_score: number;
            readonly consolidation_level: number;
            /** @description What was learnt, by perspective. */
            learnings?: unknown;
            /** @description Metadata of the client, by key. */
            metadata?: unknown;
            /** @description Other words by which searches find it. */
            cues?: string;
            /** Format: date */
            readonly said_on: string | null;
            /** Format: date-time */
            valid_from?: string | null;
            /** Format: date-time */
            valid_to?: string | null;
            /** Format: uuid */
            readonly superseded_by: string | null;
            readonly sources: components["schemas"]["SourceOut"][];
            version?: number;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
            /** Format: date-time */
            readonly last_decay_at: string | null;
        };
        MemoryPage: {
            /** Format: uri */
            next: string | null;
            /** Format: uri */
            previous: string | null;
            results: components["schemas"]["MemoryOut"][];
        };
        /**
         * @description * `auto` - auto
         *     * `before_history` - before_history
         *     * `with_user_message` - with_user_message
         * @enum {string}
         */
        MemoryPlacementEnum: "auto" | "before_history" | "with_user_message";
        /**
         * @description * `project` - project
         *     * `domain` - domain
         *     * `universal` - universal
         * @enum {string}
         */
        MemoryScopeEnum: "project" | "domain" | "universal";
        /**
         * @description * `education` - education
         *     * `task` - task
         *     * `manual` - manual
         *     * `extraction` - extraction
         *     * `import` - import
         * @enum {string}
         */
        MemorySourceEnum: "education" | "task" | "manual" | "extraction" | "import";
        /**
         * @description * `active` - active
         *     * `pending` - pending
         *     * `archived` - archived
         *     * `rejected` - rejected
         * @enum {string}
         */
        MemoryStatusEnum: "active" | "pending" | "archived" | "rejected";
        /** @description Project that another becomes part of. */
        MergeInRequest: {
            /** @default  */
            reason?: string;
            into: string;
            /**
             * @description Only tell what would be done.
             * @default false
             */
            dry_run?: boolean;
        };
        /** @description Two memories with the same content, as a proposal or a decided merge. */
        MergeOut: {
            /** Format: uuid */
            readonly id: string;
            readonly agent_id: string;
            readonly user_id: string;
            readonly kept: components["schemas"]["MemoryOut"];
            readonly absorbed: components["schemas"]["MemoryOut"];
            /** Format: double */
            likeness: number;
            state?: components["schemas"]["MergeStateEnum"];
            decided_by?: string;
            reason?: string;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            decided_at?: string | null;
        };
        MergePage: {
            /** Format: uri */
            next: string | null;
            /** Format: uri */
            previous: string | null;
            results: components["schemas"]["MergeOut"][];
        };
        /**
         * @description * `proposed` - proposed
         *     * `merged` - merged
         *     * `dismissed` - dismissed
         *     * `withdrawn` - withdrawn
         *     * `undone` - undone
         * @enum {string}
         */
        MergeStateEnum: "proposed" | "merged" | "dismissed" | "withdrawn" | "undone";
        /** @description A merge that is not made. */
        MergeWhatIfInRequest: {
            /**
             * Format: uuid
             * @description The memory to keep, if not the proposed one.
             */
            keep_id?: string;
        };
        /** @description A message to store, in the form of either vendor. */
        MessageInRequest: {
            role: components["schemas"]["NewMessageRoleEnum"];
            /** @description Null only where an assistant calls tools; blank only as the result of one. */
            content?: (string | components["schemas"]["BlockInRequest"][]) | null;
            tool_calls?: components["schemas"]["ToolCallInRequest"][] | null;
            tool_call_id?: string | null;
            /** @default  */
            author?: string;
            client_message_id?: string | null;
            /** Format: date-time */
            created_at?: string | null;
            metadata?: unknown;
            /**
             * @description Where the session has a message of this role and text without this metadata, only the metadata is added: for programs that store what an endpoint for chat programs may have stored.
             * @default false
             */
            merge?: boolean;
        };
        /** @description A message as it is stored; `content` is as it was sent. */
        MessageOut: {
            /** Format: uuid */
            readonly id: string;
            /** Format: uuid */
            readonly session_id: string;
            seq: number;
            role: components["schemas"]["MessageRoleEnum"];
            author?: string;
            readonly content: unknown;
            token_count: number;
            trust?: components["schemas"]["TrustEnum"];
            /** Format: date-time */
            created_at: string;
            utc_offset_minutes?: number | null;
            client_message_id?: string | null;
            metadata?: unknown;
            /**
             * Format: date-time
             * @description When the client continued from an earlier message; this one is not read any more.
             */
            abandoned_at?: string | null;
        };
        MessagePage: {
            /** Format: uri */
            next: string | null;
            /** Format: uri */
            previous: string | null;
            results: components["schemas"]["MessageOut"][];
        };
        /**
         * @description * `user` - user
         *     * `assistant` - assistant
         *     * `system` - system
         *     * `tool` - tool
         * @enum {string}
         */
        MessageRoleEnum: "user" | "assistant" | "system" | "tool";
        /** @description The stored messages, in the batch's order. */
        MessagesOut: {
            results: components["schemas"]["MessageOut"][];
        };
        /** @description Lines to move after a correction; by default all. */
        MisplacedInRequest: {
            /** @default  */
            reason?: string;
            entry_ids?: string[];
            /**
             * @description Only tell what would be done.
             * @default false
             */
            dry_run?: boolean;
        };
        /** @description A line that was written into a project because of a decision that was corrected since. */
        MisplacedOut: {
            document: string;
            /** Format: uuid */
            readonly id: string;
            readonly text: string | null;
            readonly text_digest: string;
            pinned?: boolean;
            source?: unknown;
            trust?: components["schemas"]["TrustEnum"];
            /** Format: date-time */
            created_at: string;
        };
        MisplacedPage: {
            /** Format: uri */
            next: string | null;
            /** Format: uri */
            previous: string | null;
            results: components["schemas"]["MisplacedOut"][];
        };
        /** @description Lines of a document, and the project that they go to. */
        MoveInRequest: {
            /** @default  */
            reason?: string;
            into: string;
            /**
             * @description Only tell what would be done.
             * @default false
             */
            dry_run?: boolean;
            /** @description Lines as they stand in the document. */
            lines: string[];
            /**
             * @description `into` is the name of a new project.
             * @default false
             */
            new_project?: boolean;
            /** @description The document they go to; by default that of the same name. */
            document?: string;
        };
        /**
         * @description * `user` - user
         *     * `assistant` - assistant
         *     * `system` - system
         *     * `tool` - tool
         *     * `kana` - kana
         *     * `yuno` - yuno
         * @enum {string}
         */
        NewMessageRoleEnum: "user" | "assistant" | "system" | "tool" | "kana" | "yuno";
        /** @description An endpoint with its secret, which no other answer has. */
        NewWebhookOut: {
            /** Format: uuid */
            readonly id: string;
            /** @description null: all agents. */
            agent_id: string | null;
            /** Address */
            url: string;
            /** @description Empty: all kinds. */
            kinds: components["schemas"]["KindsEnum"][];
            /** @description Whether events carry the text of the memory, summary or document. */
            with_texts?: boolean;
            readonly state: components["schemas"]["WebhookStateEnum"];
            /** @description Failed deliveries in a row. */
            readonly failures: number;
            /** Format: date-time */
            readonly failing_since: string | null;
            /** Format: date-time */
            readonly retry_at: string | null;
            /** Format: date-time */
            readonly rotating_until: string | null;
            /** Format: date-time */
            readonly created_at: string;
            secret: string;
        };
        /** @enum {unknown} */
        NullEnum: null;
        /** @description An import with what the extraction of its new conversations takes. */
        OneImportOut: {
            /** Format: uuid */
            readonly id: string;
            agent_id: string;
            user_id: string;
            /** @description Empty until it is recognised. */
            format: string;
            file_name?: string;
            /** Format: int64 */
            size?: number;
            readonly state: components["schemas"]["ImportStateEnum"];
            /** @description Bytes read of the file's, while a job runs. */
            readonly progress: components["schemas"]["ProgressOut"] | null;
            report: {
                [key: string]: unknown;
            };
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            previewed_at?: string | null;
            /** Format: date-time */
            imported_at?: string | null;
            /** Format: date-time */
            undone_at?: string | null;
            /** @description null without a model or new conversations; background calls keep to the agent's daily caps. */
            readonly extraction_cost: components["schemas"]["CostOut"] | null;
            /** @description null where nothing reads it. */
            readonly extraction: components["schemas"]["ReadingOut"] | null;
        };
        OneOrManyInRequest: components["schemas"]["MessageInRequest"] | components["schemas"]["BatchInRequest"];
        /** @description Policy values for one call. */
        OptionsInRequest: {
            working_memory_limit?: number;
            working_memory_scope?: components["schemas"]["WorkingMemoryScopeEnum"];
            semantic_memory_limit?: number;
            recall_limit?: number;
            /** Format: double */
            recall_share?: number;
            profile_max_tokens?: number;
            /** Format: double */
            profile_share?: number;
            max_tokens?: number;
            /** Format: double */
            token_safety_margin?: number;
            memory_placement?: components["schemas"]["MemoryPlacementEnum"];
            include_pinned?: boolean;
            include_semantic_memory?: boolean;
            include_profile?: boolean;
            include_recall?: boolean;
            include_project?: boolean;
            include_session_summary?: boolean;
            include_clock?: boolean;
            include_relevance?: boolean;
            include_tools?: boolean;
            cache?: boolean;
        };
        /** @description The job that sends it; its answer will be in the deliveries. */
        OrderedOut: {
            /** Format: uuid */
            job_id: string;
        };
        /** @description The outcome of a task. */
        OutcomeOut: {
            /** Format: uuid */
            task_id: string;
            task_result: unknown;
            searched_memories: components["schemas"]["FoundMemoryOut"][];
            used_memory_ids: string[];
            /** Format: uuid */
            recorded_memory_id: string | null;
            /** Format: date-time */
            executed_at: string | null;
            errors: string[];
        };
        /** @description Policy overrides of a user. */
        PatchedActorPatchRequest: {
            policy?: unknown;
        };
        /** @description Fields of an agent that can be set. */
        PatchedAgentPatchRequest: {
            name?: string;
            language?: components["schemas"]["LanguageEnum"];
            system_prompt?: string;
            domain?: string;
            related_domains?: string[];
            current_project?: string;
            fixed_user_id?: string;
            policy?: unknown;
            strategies?: components["schemas"]["StrategiesInRequest"];
            topics_include?: string[];
            topics_exclude?: string[];
            retrieval_config?: unknown;
        };
        /** @description A partial update: fields that are left out stay as they are. */
        PatchedMemoryPatchRequest: {
            content?: string;
            kind?: components["schemas"]["MemoryKindEnum"];
            namespace?: string;
            tags?: string[];
            scope_level?: components["schemas"]["MemoryScopeEnum"];
            scope_domain?: string;
            scope_project?: string;
            learnings?: {
                [key: string]: string;
            };
            metadata?: unknown;
            cues?: string;
            pinned?: boolean;
            /** Format: double */
            confidence?: number | null;
            /** Format: date-time */
            valid_from?: string | null;
            /** Format: date-time */
            valid_to?: string | null;
            reason?: string;
        };
        /** @description Changes of a written profile; a new text locks it unless `locked` is false. */
        PatchedProfilePatchRequest: {
            /** @default  */
            reason?: string;
            text?: string;
            locked?: boolean;
        };
        /** @description Changes of a project. */
        PatchedProjectPatchRequest: {
            /** @default  */
            reason?: string;
            name?: string;
            description?: string;
        };
        /** @description Fields of a session that can be changed; `metadata` is replaced as a whole. */
        PatchedSessionPatchRequest: {
            title?: string;
            metadata?: unknown;
        };
        /** @description Changes of a summary; a new text locks it unless `locked` is false. */
        PatchedSummaryPatchRequest: {
            /** @default  */
            reason?: string;
            summary?: string;
            locked?: boolean;
        };
        /** @description A memory's strength after an event. */
        PointOut: {
            /** Format: date-time */
            at: string;
            kind: string;
            /** Format: double */
            strength: number;
            level: number;
            times: number;
        };
        /**
         * @description * `llm` - llm
         *     * `person` - person
         * @enum {string}
         */
        ProfileGeneratorEnum: "llm" | "person";
        /** @description Job that was enqueued. */
        ProfileJobOut: {
            /** Format: uuid */
            job_id: string;
        };
        /** @description A line of a written profile, or a memory itself, with the memories that it rests on. */
        ProfileLineOut: {
            text: string;
            memory_ids: string[];
            /** @description Whether a model or a person wrote it. */
            is_written: boolean;
        };
        /** @description The profile that contexts offer of a user, best line first; `written` is null where no text was written. */
        ProfileOut: {
            agent_id: string;
            user_id: string;
            lines: components["schemas"]["ProfileLineOut"][];
            written: components["schemas"]["WrittenProfileOut"] | null;
        };
        /** @description Version to restore. */
        ProfileRestoreInRequest: {
            agent_id: string;
            user_id?: string;
            /** @default  */
            reason?: string;
            number: number;
        };
        /** @description A written profile as it was after one change, without lines of memories that were deleted since. */
        ProfileVersionOut: {
            /** Format: uuid */
            readonly id: string;
            number: number;
            verb: components["schemas"]["ProfileVersionOutVerbEnum"];
            readonly by: {
                [key: string]: string;
            };
            reason?: string;
            readonly text: string;
            generator: components["schemas"]["ProfileGeneratorEnum"];
            model?: string;
            /** @description A person put it right; no job rewrites it. */
            locked?: boolean;
            /** Format: date-time */
            created_at: string;
        };
        /**
         * @description * `write` - write
         *     * `edit` - edit
         *     * `lock` - lock
         *     * `unlock` - unlock
         *     * `restore` - restore
         * @enum {string}
         */
        ProfileVersionOutVerbEnum: "write" | "edit" | "lock" | "unlock" | "restore";
        ProfileVersionPage: {
            /** Format: uri */
            next: string | null;
            /** Format: uri */
            previous: string | null;
            results: components["schemas"]["ProfileVersionOut"][];
        };
        /** @description Progress of long work. */
        ProgressOut: {
            done: number;
            total: number | null;
        };
        /**
         * @description * `read` - read
         *     * `route` - route
         *     * `correct` - correct
         *     * `update` - update
         *     * `compact` - compact
         *     * `restore` - restore
         *     * `sync` - sync
         *     * `export` - export
         *     * `create` - create
         *     * `archive` - archive
         *     * `reactivate` - reactivate
         *     * `merge` - merge
         *     * `move` - move
         *     * `delete` - delete
         *     * `undo` - undo
         * @enum {string}
         */
        ProjectEventKindEnum: "read" | "route" | "correct" | "update" | "compact" | "restore" | "sync" | "export" | "create" | "archive" | "reactivate" | "merge" | "move" | "delete" | "undo";
        /** @description A new project. */
        ProjectInRequest: {
            agent_id: string;
            user_id?: string;
            name: string;
            /** @default  */
            description?: string;
        };
        /**
         * @description A project; its description is MEMORY.md's first block quote.
         *
         *     An archived one is out of catalogs, routing and contexts; `merged_into` is the project that it became part of.
         */
        ProjectOut: {
            /** Format: uuid */
            readonly id: string;
            name: string;
            description?: string;
            readonly agent_id: string;
            readonly user_id: string;
            status: components["schemas"]["ProjectStatusEnum"];
            /** Format: date-time */
            archived_at?: string | null;
            /** Format: date-time */
            deleted_at?: string | null;
            merged_into?: string | null;
            version?: number;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
        };
        ProjectPage: {
            /** Format: uri */
            next: string | null;
            /** Format: uri */
            previous: string | null;
            results: components["schemas"]["ProjectOut"][];
        };
        /**
         * @description * `active` - active
         *     * `archived` - archived
         *     * `deleted` - deleted
         * @enum {string}
         */
        ProjectStatusEnum: "active" | "archived" | "deleted";
        /** @description A project with its documents. */
        ProjectWithDocumentsOut: {
            /** Format: uuid */
            readonly id: string;
            name: string;
            description?: string;
            readonly agent_id: string;
            readonly user_id: string;
            status: components["schemas"]["ProjectStatusEnum"];
            /** Format: date-time */
            archived_at?: string | null;
            /** Format: date-time */
            deleted_at?: string | null;
            merged_into?: string | null;
            version?: number;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
            readonly documents: components["schemas"]["DocumentHeadOut"][];
        };
        /** @description Messages of an import that a model reads: all, those that wait, and those passed over while it is paused. */
        ReadingOut: {
            messages: number;
            waiting: number;
            skipped: number;
        };
        /** @description Reason of a curated change; stored in the revision and the audit trail. */
        ReasonRequest: {
            /** @default  */
            reason?: string;
        };
        /** @description One candidate, and whether and why it entered. */
        ReceiptItemOut: {
            layer: string;
            source_id: string | null;
            /** @description What a line of a written profile, whose id is `source_id`, rests on; null for anything else. */
            memory_ids?: string[] | null;
            /** @description Empty where the text was rejected or deleted since. */
            excerpt: string;
            tokens: number;
            /** Format: double */
            relevance: number | null;
            /** Format: double */
            final_score: number | null;
            score_breakdown: components["schemas"]["ScoreBreakdownOut"] | null;
            included: boolean;
            reason: string;
        };
        /** @description Figures of a context, and its request. */
        ReceiptMetadataOut: {
            working_memory_count: number;
            semantic_memory_count: number;
            recall_count: number;
            pinned_count: number;
            profile_count: number;
            has_session_summary: boolean;
            project: string | null;
            total_tokens: number;
            token_limit: number;
            compression_applied: boolean;
            /** Format: double */
            assembly_latency_ms: number;
            /** @description As the provider counts them, where that was asked for. */
            exact_tokens?: number | null;
            degraded: string[];
            /** @description What the message asks to be forgotten; nothing was recalled for it. */
            forget_request?: string;
            layer_budgets?: components["schemas"]["ShareUseOut"][];
            /** @description Messages that the client showed and the token limit left out. */
            trimmed_messages?: number;
            asked?: components["schemas"]["AskedOut"];
        };
        /** @description Why a context was what it was. */
        ReceiptOut: {
            /** Format: uuid */
            readonly id: string;
            /** Format: date-time */
            created_at: string;
            /** Format: uuid */
            readonly session_id: string | null;
            query: string;
            /** Format: int64 */
            token_limit: number;
            /** Format: int64 */
            total_tokens: number;
            metadata: components["schemas"]["ReceiptMetadataOut"];
            items: components["schemas"]["ReceiptItemOut"][];
        };
        /** @description The number of reinforced memories, and the unknown ids. */
        ReinforcedOut: {
            reinforced: number;
            unknown: string[];
        };
        /** @description Reason of a curated change; stored in the revision and the audit trail. */
        RestoreInRequest: {
            /** @default  */
            reason?: string;
            /** Format: uuid */
            revision_id: string;
        };
        /**
         * @description * `created` - created
         *     * `reinforced` - reinforced
         *     * `refused` - refused
         * @enum {string}
         */
        ResultEnum: "created" | "reinforced" | "refused";
        /** @description A query, and how many results each namespace gives. */
        RetrieveInRequest: {
            agent_id: string;
            user_id?: string;
            query: string;
            config?: unknown;
        };
        RetrieveOut: {
            namespaces: {
                [key: string]: components["schemas"]["FoundMemoryOut"][];
            };
            degraded: string[];
        };
        RevisionOut: {
            /** Format: uuid */
            readonly id: string;
            number: number;
            verb: string;
            readonly by: {
                [key: string]: string;
            };
            reason?: string;
            changed_before?: unknown;
            changed_after?: unknown;
            /** Format: date-time */
            created_at: string;
        };
        RevisionPage: {
            /** Format: uri */
            next: string | null;
            /** Format: uri */
            previous: string | null;
            results: components["schemas"]["RevisionOut"][];
        };
        /** @description Message to be routed. */
        RouteInRequest: {
            agent_id: string;
            user_id?: string;
            message: string;
            /** @description `api`, or the session's channel. */
            channel?: string;
            /**
             * Format: uuid
             * @description Messages that name no project stay with the session's.
             */
            session_id?: string | null;
        };
        /** @description Routing decision: project or proposal, confidence, action, and correction. */
        RouteOut: {
            /** Format: uuid */
            readonly id: string;
            project?: string | null;
            readonly proposed_name: string | null;
            confidence: components["schemas"]["RoutingConfidenceEnum"];
            action: components["schemas"]["RoutingActionEnum"];
            reason?: string;
            message: string;
            channel: string;
            /** Format: uuid */
            readonly session_id: string | null;
            trust?: components["schemas"]["TrustEnum"];
            corrected_project?: string | null;
            corrected_by?: string;
            /** Format: date-time */
            corrected_at?: string | null;
            /** Format: date-time */
            created_at: string;
        };
        RoutePage: {
            /** Format: uri */
            next: string | null;
            /** Format: uri */
            previous: string | null;
            results: components["schemas"]["RouteOut"][];
        };
        /**
         * @description * `route` - route
         *     * `route_and_disclose` - route_and_disclose
         *     * `ask` - ask
         *     * `propose_new` - propose_new
         * @enum {string}
         */
        RoutingActionEnum: "route" | "route_and_disclose" | "ask" | "propose_new";
        /**
         * @description * `high` - high
         *     * `medium` - medium
         *     * `low` - low
         * @enum {string}
         */
        RoutingConfidenceEnum: "high" | "medium" | "low";
        /** @description Project that the message was routed to. */
        RoutingOut: {
            /**
             * Format: uuid
             * @description By this the decision can be put right.
             */
            id: string;
            project: string | null;
            confidence: components["schemas"]["RoutingConfidenceEnum"];
            action: components["schemas"]["RoutingActionEnum"];
            proposed_name: string | null;
        };
        /** @description Parts of a score: `own_relevance` of messages only, weights, strength and recency of memories only. */
        ScoreBreakdownOut: {
            /**
             * Format: double
             * @description Cosine; null without vectors.
             */
            similarity_raw?: number | null;
            /**
             * Format: double
             * @description Word score; null without words.
             */
            word_raw?: number | null;
            /**
             * Format: double
             * @description Without neighbours.
             */
            own_relevance?: number;
            /** Format: double */
            relevance?: number;
            /** Format: double */
            similarity_weighted?: number;
            /** Format: double */
            strength_raw?: number;
            /** Format: double */
            strength_normalized?: number;
            /** Format: double */
            strength_weighted?: number;
            /** Format: double */
            recency_raw?: number;
            /** Format: double */
            recency_weighted?: number;
            /** Format: double */
            total?: number;
        };
        /** @description A search, by text or by vector. `others` are users or agents whose memories are searched as well. */
        SearchInRequest: {
            agent_id: string;
            user_id?: string;
            others?: components["schemas"]["TenantRequest"][];
            query?: string;
            embedding?: number[];
            perspective?: string | null;
            project?: string | null;
            limit?: number;
            candidate_limit?: number;
            /** Format: double */
            similarity_threshold?: number;
            filters?: components["schemas"]["FiltersInRequest"];
            /** @default false */
            include_messages?: boolean;
            /** @default true */
            mark_candidates?: boolean;
        };
        /** @description The best memories; with `include_messages`, the best past messages after them. */
        SearchOut: {
            results: components["schemas"]["FoundOut"][];
            candidate_count: number;
            /** @description Similar words of the memories, where the query's own find none; else empty. */
            searched_for: string;
            degraded: string[];
        };
        /** @description A session to open. */
        SessionInRequest: {
            agent_id: string;
            user_id?: string;
            /** Format: uuid */
            session_id?: string;
            /** @default api */
            channel?: string;
            /** @default  */
            title?: string;
            metadata?: unknown;
        };
        /** @description A session. */
        SessionOut: {
            /** Format: uuid */
            readonly id: string;
            readonly agent_id: string;
            readonly user_id: string;
            channel?: string;
            title?: string;
            /** Format: date-time */
            started_at: string;
            /** Format: date-time */
            ended_at?: string | null;
            message_count?: number;
            /** Format: date-time */
            last_message_at?: string | null;
            metadata?: unknown;
        };
        SessionPage: {
            /** Format: uri */
            next: string | null;
            /** Format: uri */
            previous: string | null;
            results: components["schemas"]["SessionOut"][];
        };
        /** @description A layer's share of the limit, its allowed tokens, and those used. */
        ShareUseOut: {
            layer: string;
            /** Format: double */
            share: number;
            allowed: number;
            used: number;
        };
        /** @description The actor whose memory sleeps; with `all_users`, the agent and all its users. */
        SleepInRequest: {
            agent_id: string;
            user_id?: string;
            /** @default false */
            all_users?: boolean;
            /** @default false */
            dry_run?: boolean;
        };
        /** @description One sleep, without its changes. */
        SleepOut: {
            /** Format: uuid */
            readonly id: string;
            readonly agent_id: string;
            readonly user_id: string;
            dry_run?: boolean;
            state: components["schemas"]["SleepRunStateEnum"];
            trigger: components["schemas"]["SleepTriggerEnum"];
            decayed_count?: number;
            archived_count?: number;
            held_count?: number;
            consolidated_count?: number;
            merged_count?: number;
            readonly proposed_merges: number;
            /** Format: date-time */
            now: string;
            /** Format: date-time */
            processed_at?: string | null;
            /** Format: date-time */
            undone_at?: string | null;
            errors?: unknown;
        };
        SleepPage: {
            /** Format: uri */
            next: string | null;
            /** Format: uri */
            previous: string | null;
            results: components["schemas"]["SleepOut"][];
        };
        /**
         * @description * `running` - running
         *     * `done` - done
         *     * `undone` - undone
         * @enum {string}
         */
        SleepRunStateEnum: "running" | "done" | "undone";
        /**
         * @description * `api` - api
         *     * `task` - task
         *     * `schedule` - schedule
         *     * `command` - command
         *     * `curator` - curator
         * @enum {string}
         */
        SleepTriggerEnum: "api" | "task" | "schedule" | "command" | "curator";
        /** @description A message that a memory was drawn from. */
        SourceOut: {
            /** Format: uuid */
            message_id: string;
            /** Format: uuid */
            session_id: string;
            channel?: string;
            trust: components["schemas"]["TrustEnum"];
            /** Format: date-time */
            created_at: string;
        };
        /** @description An agent's usage. */
        SpendingOut: {
            agent_id: string;
            /** @description Null: the agent with all its users. */
            user_id: string | null;
            results: components["schemas"]["UsageRow"][];
            /** @description With `by=key`: days by key, newest first, at most 5,000. */
            keys: components["schemas"]["KeyUsageRow"][] | null;
            /** @description With `by=user`: as `keys`, by user. */
            users: components["schemas"]["UserUsageRow"][] | null;
            today: components["schemas"]["TodayOut"];
            /** Format: date */
            from: string;
            /** Format: date */
            to: string;
        };
        /** @description A session in numbers. */
        StatsOut: {
            /** Format: uuid */
            session_id: string;
            message_count: number;
            /** Format: date-time */
            first_message_time: string | null;
            /** Format: date-time */
            last_message_time: string | null;
            duration_seconds: number | null;
            has_summary: boolean;
            /** Format: date-time */
            last_summary_time: string | null;
        };
        /** @description Long-term strategies, switched on or off; omitted ones are on. */
        StrategiesInRequest: {
            semantic?: boolean;
            user_preference?: boolean;
            summary?: boolean;
            episodic?: boolean;
            reflection?: boolean;
        };
        /** @description Progress of a strategy: the `seq` up to which it has read, and the messages that it passed over. */
        StrategyStateOut: {
            strategy: string;
            is_on: boolean;
            read_until: number;
            passed_after: number;
            passed_until: number;
        };
        /** @description Serializer that rejects unknown keys, so that a misspelt option is an error. */
        StrengthInRequest: {
            /** Format: uuid */
            id: string;
            /** Format: double */
            strength: number;
        };
        /** @description Serializer that rejects unknown keys, so that a misspelt option is an error. */
        StrengthsInRequest: {
            updates: components["schemas"]["StrengthInRequest"][];
        };
        /** @description Time window of the summary; without one, the session up to now. */
        SummaryOrderInRequest: {
            /** Format: date-time */
            start_time?: string | null;
            /** Format: date-time */
            end_time?: string | null;
        };
        /** @description Summary of a session; `message_count` is the last message that it covers. */
        SummaryOut: {
            /** Format: uuid */
            readonly id: string;
            /** Format: uuid */
            session_id: string;
            readonly agent_id: string;
            readonly user_id: string;
            summary: string;
            message_count: number;
            /** Format: date-time */
            start_time: string;
            /** Format: date-time */
            end_time: string;
            model?: string;
            generator: components["schemas"]["GeneratorEnum"];
            trust?: components["schemas"]["TrustEnum"];
            /** @description A person put it right; no job rewrites it. */
            locked?: boolean;
            version?: number;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
        };
        SummaryPage: {
            /** Format: uri */
            next: string | null;
            /** Format: uri */
            previous: string | null;
            results: components["schemas"]["SummaryOut"][];
        };
        /** @description Version to restore. */
        SummaryRestoreInRequest: {
            /** @default  */
            reason?: string;
            number: number;
        };
        /**
         * @description * `write` - write
         *     * `edit` - edit
         *     * `lock` - lock
         *     * `unlock` - unlock
         *     * `restore` - restore
         *     * `delete` - delete
         * @enum {string}
         */
        SummaryVerbEnum: "write" | "edit" | "lock" | "unlock" | "restore" | "delete";
        /** @description A summary as it was after one change. */
        SummaryVersionOut: {
            /** Format: uuid */
            readonly id: string;
            number: number;
            verb: components["schemas"]["SummaryVerbEnum"];
            readonly by: {
                [key: string]: string;
            };
            reason?: string;
            summary: string;
            message_count: number;
            model?: string;
            generator: components["schemas"]["GeneratorEnum"];
            trust: components["schemas"]["TrustEnum"];
            locked: boolean;
            /** Format: date-time */
            created_at: string;
        };
        SummaryVersionPage: {
            /** Format: uri */
            next: string | null;
            /** Format: uri */
            previous: string | null;
            results: components["schemas"]["SummaryVersionOut"][];
        };
        /** @description A memory that replaces another, and the time from which it is valid. */
        SupersedeInRequest: {
            /** @default  */
            reason?: string;
            content: string;
            tags?: string[];
            source_message_ids?: string[];
            channel?: string;
            /** Format: double */
            confidence?: number | null;
            /** Format: date-time */
            valid_from?: string;
            source?: components["schemas"]["MemorySourceEnum"];
        };
        /** @description Agent and user, as most bodies carry them. */
        TaskInRequest: {
            agent_id: string;
            user_id?: string;
            query: string;
            perspective?: string | null;
            /** @default  */
            project?: string | null;
        };
        /** @description A new task with the memories found for it. */
        TaskOut: {
            /** Format: uuid */
            task_id: string;
            memories: components["schemas"]["FoundMemoryOut"][];
            /** @description null if it was not requested. */
            routing: components["schemas"]["RoutingOut"] | null;
        };
        /** @description Agent and user, as most bodies carry them. */
        TenantRequest: {
            agent_id: string;
            user_id?: string;
        };
        /** @description The agent's usage today, all users together (for a key bound to a user: of that user), and its caps. */
        TodayOut: {
            /** Format: double */
            cost: number;
            tokens: number;
            /** Format: double */
            daily_spend_cap: number | null;
            daily_token_cap: number | null;
            /** @description Whether background work waits; chat never does. */
            readonly is_paused: boolean;
            /** Format: date-time */
            readonly paused_until: string | null;
        };
        /** @description A call of a tool in OpenAI's form. */
        ToolCallInRequest: {
            id: string;
            /** @default function */
            type?: components["schemas"]["ToolCallInTypeEnum"];
            function: components["schemas"]["FunctionInRequest"];
        };
        /**
         * @description * `function` - function
         * @enum {string}
         */
        ToolCallInTypeEnum: "function";
        /** @description A tool that the model may call, in Anthropic's form or, with `function`, in OpenAI's. */
        ToolInRequest: {
            type?: (components["schemas"]["ToolInTypeEnum"] | components["schemas"]["NullEnum"]) | null;
            name?: string;
            /** @default  */
            description?: string;
            input_schema?: unknown;
            /** @description OpenAI's form: `{"name", "description"?, "parameters"?}`. */
            function?: unknown;
        };
        /**
         * @description * `function` - function
         *     * `custom` - custom
         * @enum {string}
         */
        ToolInTypeEnum: "function" | "custom";
        /** @description The result of a tool that the last answer called. */
        ToolResultInRequest: {
            tool_use_id: string;
            /** @description A text, or blocks of text and images. */
            content: unknown;
            /** @default false */
            is_error?: boolean;
        };
        /** @description Result or preview of a merge or move; `event_id` undoes it. */
        TransferOut: {
            project: string;
            into: string;
            documents: components["schemas"]["DocumentChangeOut"][];
            routes: number;
            corrections: number;
            /** Format: uuid */
            event_id?: string | null;
        };
        /**
         * @description * `trusted` - trusted
         *     * `untrusted` - untrusted
         * @enum {string}
         */
        TrustEnum: "trusted" | "untrusted";
        /** @description The number of changed memories, and the unknown ids. */
        UpdatedOut: {
            updated: number;
            unknown: string[];
        };
        /** @description Tokens counted by the provider. */
        UsageOut: {
            input_tokens: number;
            output_tokens: number;
        };
        /** @description A day's calls of one operation to one model. */
        UsageRow: {
            /** Format: date */
            day: string;
            calls: number;
            failures: number;
            input_tokens: number;
            output_tokens: number;
            /**
             * Format: double
             * @description US dollars; null: no price known.
             */
            cost: number | null;
            operation: string;
            model: string;
        };
        /** @description A report of use; with a `task_id` it counts once per task. */
        UsedInRequest: {
            perspective?: string | null;
            task_id?: string | null;
        };
        /** @description A user of an agent, with counts and the time of the last message. */
        UserOut: {
            agent_id: string;
            user_id?: string;
            /** Format: date-time */
            created_at: string;
            session_count: number;
            message_count: number;
            /** Format: date-time */
            last_message_at: string | null;
        };
        UserPage: {
            /** Format: uri */
            next: string | null;
            /** Format: uri */
            previous: string | null;
            results: components["schemas"]["UserOut"][];
        };
        /** @description A day's calls for one user. */
        UserUsageRow: {
            /** Format: date */
            day: string;
            calls: number;
            failures: number;
            input_tokens: number;
            output_tokens: number;
            /**
             * Format: double
             * @description US dollars; null: no price known.
             */
            cost: number | null;
            /** @description Null: an erased one, or none. */
            user_id: string | null;
        };
        /** @description An endpoint that gets events from now on. */
        WebhookInRequest: {
            /** @description https, with a public address. */
            url: string;
            /** @description Left out: all agents, for a key of all agents. */
            agent_id?: string;
            /** @description Left out: all kinds. */
            kinds?: components["schemas"]["KindsEnum"][];
            /**
             * @description Whether events carry the text of the memory, summary or document.
             * @default false
             */
            with_texts?: boolean;
        };
        /** @description An endpoint. A `disabled` one failed for a day, or answered 410; `enable` continues where it stopped. */
        WebhookOut: {
            /** Format: uuid */
            readonly id: string;
            /** @description null: all agents. */
            agent_id: string | null;
            /** Address */
            url: string;
            /** @description Empty: all kinds. */
            kinds: components["schemas"]["KindsEnum"][];
            /** @description Whether events carry the text of the memory, summary or document. */
            with_texts?: boolean;
            readonly state: components["schemas"]["WebhookStateEnum"];
            /** @description Failed deliveries in a row. */
            readonly failures: number;
            /** Format: date-time */
            readonly failing_since: string | null;
            /** Format: date-time */
            readonly retry_at: string | null;
            /** Format: date-time */
            readonly rotating_until: string | null;
            /** Format: date-time */
            readonly created_at: string;
        };
        WebhookPage: {
            /** Format: uri */
            next: string | null;
            /** Format: uri */
            previous: string | null;
            results: components["schemas"]["WebhookOut"][];
        };
        /**
         * @description * `active` - active
         *     * `disabled` - disabled
         * @enum {string}
         */
        WebhookStateEnum: "active" | "disabled";
        /** @description A change of a memory that is not made; `values` are those of an edit, or corrections of an approval. */
        WhatIfInRequest: {
            /** @default edit */
            verb?: components["schemas"]["WhatIfInVerbEnum"];
            values?: components["schemas"]["CuratedInRequest"];
        };
        /**
         * @description * `edit` - edit
         *     * `pin` - pin
         *     * `unpin` - unpin
         *     * `archive` - archive
         *     * `reactivate` - reactivate
         *     * `approve` - approve
         *     * `reject` - reject
         *     * `delete` - delete
         * @enum {string}
         */
        WhatIfInVerbEnum: "edit" | "pin" | "unpin" | "archive" | "reactivate" | "approve" | "reject" | "delete";
        /** @description A sleep with its changes; `runs` are the sleeps of all users, where one call began them. */
        WholeSleepOut: {
            /** Format: uuid */
            readonly id: string;
            readonly agent_id: string;
            readonly user_id: string;
            dry_run?: boolean;
            state: components["schemas"]["SleepRunStateEnum"];
            trigger: components["schemas"]["SleepTriggerEnum"];
            decayed_count?: number;
            archived_count?: number;
            held_count?: number;
            consolidated_count?: number;
            merged_count?: number;
            readonly proposed_merges: number;
            /** Format: date-time */
            now: string;
            /** Format: date-time */
            processed_at?: string | null;
            /** Format: date-time */
            undone_at?: string | null;
            errors?: unknown;
            readonly changes: components["schemas"]["ChangeOut"][];
            readonly runs: components["schemas"]["SleepOut"][];
        };
        /**
         * @description * `user` - user
         *     * `session` - session
         * @enum {string}
         */
        WorkingMemoryScopeEnum: "user" | "session";
        /** @description A line of a written profile; it is not shown where one of its memories changed or does not hold any more. */
        WrittenLineOut: {
            text: string;
            memory_ids: string[];
            is_shown: boolean;
        };
        /** @description Result of an item: `created`, `reinforced`, or `refused` with its errors. */
        WrittenOut: {
            result: components["schemas"]["ResultEnum"];
            /** Format: uuid */
            id: string | null;
            /** @description The memory's. */
            status: string | null;
            errors: components["schemas"]["ItemErrorOut"][];
        };
        /** @description The text that a model or a person wrote, line by line. */
        WrittenProfileOut: {
            /** Format: uuid */
            readonly id: string;
            readonly lines: components["schemas"]["WrittenLineOut"][];
            generator: components["schemas"]["ProfileGeneratorEnum"];
            model?: string;
            /** @description A person put it right; no job rewrites it. */
            locked?: boolean;
            version?: number;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    actor_get: {
        parameters: {
            query: {
                agent_id: string;
                user_id?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ActorOut"];
                };
            };
        };
    };
    actor_erase: {
        parameters: {
            query: {
                agent_id: string;
                user_id?: string;
                /** @description Free the space of the deleted rows, in the background. */
                vacuum?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErasedOut"];
                };
            };
        };
    };
    actor_update: {
        parameters: {
            query: {
                agent_id: string;
                user_id?: string;
            };
            header?: {
                /** @description The ETag you read. */
                "If-Match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["PatchedActorPatchRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ActorOut"];
                };
            };
        };
    };
    actor_export: {
        parameters: {
            query: {
                agent_id: string;
                format?: "json" | "jsonl";
                user_id?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": string;
                };
            };
        };
    };
    actor_what_if: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
                /** @description The ETag you read. */
                "If-Match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ActorWhatIfInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EffectOut"];
                };
            };
        };
    };
    agents_list: {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentPage"];
                };
            };
        };
    };
    agents_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AgentInRequest"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentOut"];
                };
            };
        };
    };
    agent_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentOut"];
                };
            };
        };
    };
    agent_update: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag you read. */
                "If-Match"?: string;
            };
            path: {
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["PatchedAgentPatchRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentOut"];
                };
            };
        };
    };
    agent_what_if: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
                /** @description The ETag you read. */
                "If-Match"?: string;
            };
            path: {
                agent_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["AgentWhatIfInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EffectOut"];
                };
            };
        };
    };
    changes_list: {
        parameters: {
            query: {
                /** @description The `cursor` of the answer before; 0 for the beginning. */
                after?: number;
                agent_id: string;
                /** @description Whether those of all the agent's users are asked for. */
                all_users?: boolean;
                limit?: number;
                user_id?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangesOut"];
                };
            };
        };
    };
    chat: {
        parameters: {
            query?: {
                format?: "events" | "json";
            };
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChatInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChatOut"];
                    "text/event-stream": string;
                };
            };
        };
    };
    context_assemble: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ContextInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ContextOut"];
                    "text/plain": string;
                };
            };
        };
    };
    expectations_list: {
        parameters: {
            query: {
                agent_id: string;
                cursor?: string;
                limit?: number;
                /**
                 * @description * `kept` - kept
                 *     * `broken` - broken
                 */
                state?: "kept" | "broken";
                user_id?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExpectationPage"];
                };
            };
        };
    };
    expectation_keep: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ExpectationInRequest"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExpectationOut"];
                };
            };
        };
    };
    expectation_withdraw: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                expectation_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No response body */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    expectations_check: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CheckInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckedOut"];
                };
            };
        };
    };
    imports_list: {
        parameters: {
            query: {
                agent_id: string;
                cursor?: string;
                limit?: number;
                user_id?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ImportPage"];
                };
            };
        };
    };
    imports_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ImportInRequest"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ImportOut"];
                };
            };
        };
    };
    import_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                import_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OneImportOut"];
                };
            };
        };
    };
    import_append: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                import_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChunkInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ImportOut"];
                };
            };
        };
    };
    import_order: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                import_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ImportOrderInRequest"];
            };
        };
        responses: {
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ImportOut"];
                };
            };
        };
    };
    job_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobOut"];
                };
            };
        };
    };
    memories_list: {
        parameters: {
            query: {
                agent_id: string;
                as_of?: string;
                channel?: string;
                created_after?: string;
                created_before?: string;
                cursor?: string;
                /** @description Whether superseded and expired ones are included. */
                ended?: boolean;
                kind?: ("fact" | "preference" | "summary" | "episode" | "reflection" | "learning" | "decision" | "note")[];
                limit?: number;
                max_strength?: number;
                /** @description A JSON object that the metadata contain, or whose operators ($gt, …) hold. */
                metadata?: string;
                min_strength?: number;
                namespace?: string;
                /**
                 * @description * `created_at` - created_at
                 *     * `-created_at` - -created_at
                 *     * `strength` - strength
                 *     * `-strength` - -strength
                 *     * `last_accessed_at` - last_accessed_at
                 *     * `-last_accessed_at` - -last_accessed_at
                 */
                ordering?: "created_at" | "-created_at" | "strength" | "-strength" | "last_accessed_at" | "-last_accessed_at";
                pinned?: boolean | null;
                /** @description Only the best matches of this text, as `POST memories/search` finds them, in one page. */
                q?: string;
                source?: ("education" | "task" | "manual" | "extraction" | "import")[];
                /**
                 * @description * `active` - active
                 *     * `pending` - pending
                 *     * `archived` - archived
                 *     * `rejected` - rejected
                 *     * `all` - all
                 */
                status?: "active" | "pending" | "archived" | "rejected" | "all";
                /** @description All of them. */
                tag?: string[];
                /** @description Part of the content, in any case. */
                text?: string;
                /**
                 * @description * `trusted` - trusted
                 *     * `untrusted` - untrusted
                 */
                trust?: "trusted" | "untrusted";
                updated_after?: string;
                updated_before?: string;
                used_after?: string;
                used_before?: string;
                user_id?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryPage"];
                };
            };
        };
    };
    memories_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MemoryInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryOut"];
                };
            };
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryOut"];
                };
            };
        };
    };
    memory_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                memory_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryOut"];
                };
            };
        };
    };
    memory_delete: {
        parameters: {
            query?: {
                /** @description Also delete the messages that it comes from. */
                with_sources?: boolean;
            };
            header?: {
                /** @description The ETag you read. */
                "If-Match"?: string;
            };
            path: {
                memory_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryDeletionOut"];
                };
            };
            /** @description No response body */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    memory_update: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag you read. */
                "If-Match"?: string;
            };
            path: {
                memory_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["PatchedMemoryPatchRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryOut"];
                };
            };
        };
    };
    memory_approve: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
                /** @description The ETag you read. */
                "If-Match"?: string;
            };
            path: {
                memory_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ReasonRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryOut"];
                };
            };
        };
    };
    memory_archive: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
                /** @description The ETag you read. */
                "If-Match"?: string;
            };
            path: {
                memory_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ReasonRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryOut"];
                };
            };
        };
    };
    memory_impact: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                memory_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ImpactInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryOut"];
                };
            };
        };
    };
    memory_pin: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
                /** @description The ETag you read. */
                "If-Match"?: string;
            };
            path: {
                memory_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ReasonRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryOut"];
                };
            };
        };
    };
    memory_reactivate: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
                /** @description The ETag you read. */
                "If-Match"?: string;
            };
            path: {
                memory_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ReasonRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryOut"];
                };
            };
        };
    };
    memory_reject: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
                /** @description The ETag you read. */
                "If-Match"?: string;
            };
            path: {
                memory_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ReasonRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryOut"];
                };
            };
        };
    };
    memory_restore: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
                /** @description The ETag you read. */
                "If-Match"?: string;
            };
            path: {
                memory_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RestoreInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryOut"];
                };
            };
        };
    };
    memory_revisions_list: {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: never;
            path: {
                memory_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RevisionPage"];
                };
            };
        };
    };
    memory_strength_history: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                memory_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HistoryOut"];
                };
            };
        };
    };
    memory_supersede: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
                /** @description The ETag you read. */
                "If-Match"?: string;
            };
            path: {
                memory_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SupersedeInRequest"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryOut"];
                };
            };
        };
    };
    memory_unpin: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
                /** @description The ETag you read. */
                "If-Match"?: string;
            };
            path: {
                memory_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ReasonRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryOut"];
                };
            };
        };
    };
    memory_used: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                memory_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["UsedInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryOut"];
                };
            };
        };
    };
    memory_what_if: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
                /** @description The ETag you read. */
                "If-Match"?: string;
            };
            path: {
                memory_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["WhatIfInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EffectOut"];
                };
            };
        };
    };
    memories_archive: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ArchiveInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UpdatedOut"];
                };
            };
        };
    };
    memories_batch: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MemoriesInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoriesWrittenOut"];
                };
            };
        };
    };
    memories_bulk: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BulkInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BulkOut"];
                };
            };
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BulkOut"];
                };
            };
        };
    };
    memories_bulk_state: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                batch_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BulkStateOut"];
                };
            };
        };
    };
    memories_bulk_undo: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                batch_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ReasonRequest"];
            };
        };
        responses: {
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BulkStateOut"];
                };
            };
        };
    };
    memories_candidates: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["IdsInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UpdatedOut"];
                };
            };
        };
    };
    memories_count: {
        parameters: {
            query: {
                agent_id: string;
                as_of?: string;
                channel?: string;
                created_after?: string;
                created_before?: string;
                /** @description Whether superseded and expired ones are included. */
                ended?: boolean;
                kind?: ("fact" | "preference" | "summary" | "episode" | "reflection" | "learning" | "decision" | "note")[];
                max_strength?: number;
                /** @description A JSON object that the metadata contain, or whose operators ($gt, …) hold. */
                metadata?: string;
                min_strength?: number;
                namespace?: string;
                pinned?: boolean | null;
                source?: ("education" | "task" | "manual" | "extraction" | "import")[];
                /**
                 * @description * `active` - active
                 *     * `pending` - pending
                 *     * `archived` - archived
                 *     * `rejected` - rejected
                 *     * `all` - all
                 */
                status?: "active" | "pending" | "archived" | "rejected" | "all";
                /** @description All of them. */
                tag?: string[];
                /** @description Part of the content, in any case. */
                text?: string;
                /**
                 * @description * `trusted` - trusted
                 *     * `untrusted` - untrusted
                 */
                trust?: "trusted" | "untrusted";
                updated_after?: string;
                updated_before?: string;
                used_after?: string;
                used_before?: string;
                user_id?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CountOut"];
                };
            };
        };
    };
    memories_retrieve: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RetrieveInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RetrieveOut"];
                };
            };
        };
    };
    memories_search: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SearchInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SearchOut"];
                };
            };
        };
    };
    memories_set_strengths: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["StrengthsInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UpdatedOut"];
                };
            };
        };
    };
    memories_used: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ManyUsedInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReinforcedOut"];
                };
            };
        };
    };
    merges_list: {
        parameters: {
            query: {
                agent_id: string;
                cursor?: string;
                limit?: number;
                /**
                 * @description * `proposed` - proposed
                 *     * `merged` - merged
                 *     * `dismissed` - dismissed
                 *     * `withdrawn` - withdrawn
                 *     * `undone` - undone
                 *     * `all` - all
                 */
                state?: "proposed" | "merged" | "dismissed" | "withdrawn" | "undone" | "all";
                user_id?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MergePage"];
                };
            };
        };
    };
    merge_accept: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                merge_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ReasonRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MergeOut"];
                };
            };
        };
    };
    merge_dismiss: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                merge_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ReasonRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MergeOut"];
                };
            };
        };
    };
    merge_undo: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                merge_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ReasonRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MergeOut"];
                };
            };
        };
    };
    merge_what_if: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                merge_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["MergeWhatIfInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EffectOut"];
                };
            };
        };
    };
    message_delete: {
        parameters: {
            query?: {
                /** @description Count what it would take, and delete nothing. */
                dry_run?: boolean;
            };
            header?: never;
            path: {
                message_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeletionOut"];
                };
            };
        };
    };
    profile_get: {
        parameters: {
            query: {
                agent_id: string;
                user_id?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProfileOut"];
                };
            };
        };
    };
    profile_write: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TenantRequest"];
            };
        };
        responses: {
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProfileJobOut"];
                };
            };
        };
    };
    profile_delete: {
        parameters: {
            query: {
                agent_id: string;
                user_id?: string;
            };
            header?: {
                /** @description The ETag you read. */
                "If-Match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No response body */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    profile_update: {
        parameters: {
            query: {
                agent_id: string;
                user_id?: string;
            };
            header?: {
                /** @description The ETag you read. */
                "If-Match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["PatchedProfilePatchRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProfileOut"];
                };
            };
        };
    };
    profile_restore: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
                /** @description The ETag you read. */
                "If-Match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ProfileRestoreInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProfileOut"];
                };
            };
        };
    };
    profile_versions_list: {
        parameters: {
            query: {
                agent_id: string;
                cursor?: string;
                limit?: number;
                user_id?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProfileVersionPage"];
                };
            };
        };
    };
    projects_list: {
        parameters: {
            query: {
                agent_id: string;
                cursor?: string;
                limit?: number;
                /**
                 * @description * `active` - active
                 *     * `archived` - archived
                 *     * `deleted` - deleted
                 *     * `all` - all
                 */
                status?: "active" | "archived" | "deleted" | "all";
                user_id?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProjectPage"];
                };
            };
        };
    };
    projects_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ProjectInRequest"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProjectOut"];
                };
            };
        };
    };
    project_get: {
        parameters: {
            query: {
                agent_id: string;
                user_id?: string;
            };
            header?: never;
            path: {
                project_name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProjectWithDocumentsOut"];
                };
            };
        };
    };
    project_delete: {
        parameters: {
            query: {
                agent_id: string;
                user_id?: string;
            };
            header?: {
                /** @description The ETag you read. */
                "If-Match"?: string;
            };
            path: {
                project_name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No response body */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    project_update: {
        parameters: {
            query: {
                agent_id: string;
                user_id?: string;
            };
            header?: {
                /** @description The ETag you read. */
                "If-Match"?: string;
            };
            path: {
                project_name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["PatchedProjectPatchRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProjectWithDocumentsOut"];
                };
            };
        };
    };
    project_archive: {
        parameters: {
            query: {
                agent_id: string;
                user_id?: string;
            };
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                project_name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ReasonRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProjectOut"];
                };
            };
        };
    };
    document_get: {
        parameters: {
            query: {
                agent_id: string;
                /** @description The text holds the entries that wait for approval, too. */
                pending?: boolean;
                user_id?: string;
            };
            header?: never;
            path: {
                document_name: string;
                project_name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DocumentOut"];
                };
            };
        };
    };
    document_put: {
        parameters: {
            query: {
                agent_id: string;
                /** @description The text holds the entries that wait for approval, too. */
                pending?: boolean;
                user_id?: string;
            };
            header?: {
                /** @description The ETag you read. */
                "If-Match"?: string;
                /** @description `*`: only if there is none yet. */
                "If-None-Match"?: string;
            };
            path: {
                document_name: string;
                project_name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DocumentInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DocumentOut"];
                };
            };
        };
    };
    document_delete: {
        parameters: {
            query: {
                agent_id: string;
                user_id?: string;
            };
            header?: {
                /** @description The ETag you read. */
                "If-Match"?: string;
            };
            path: {
                document_name: string;
                project_name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No response body */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    document_backups_list: {
        parameters: {
            query: {
                agent_id: string;
                /** @description The text holds the entries that wait for approval, too. */
                pending?: boolean;
                user_id?: string;
            };
            header?: never;
            path: {
                document_name: string;
                project_name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DocumentVersionPage"];
                };
            };
        };
    };
    document_compact: {
        parameters: {
            query: {
                agent_id: string;
                user_id?: string;
            };
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                document_name: string;
                project_name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobIdOut"];
                };
            };
        };
    };
    document_entries_list: {
        parameters: {
            query: {
                agent_id: string;
                cursor?: string;
                limit?: number;
                user_id?: string;
            };
            header?: never;
            path: {
                document_name: string;
                project_name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EntryPage"];
                };
            };
        };
    };
    document_entries_create: {
        parameters: {
            query: {
                agent_id: string;
                user_id?: string;
            };
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
                /** @description The ETag you read. */
                "If-Match"?: string;
            };
            path: {
                document_name: string;
                project_name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EntryInRequest"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AppendedOut"];
                };
            };
        };
    };
    document_move: {
        parameters: {
            query: {
                agent_id: string;
                user_id?: string;
            };
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                document_name: string;
                project_name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MoveInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TransferOut"];
                };
            };
        };
    };
    document_restore: {
        parameters: {
            query: {
                agent_id: string;
                user_id?: string;
            };
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
                /** @description The ETag you read. */
                "If-Match"?: string;
            };
            path: {
                document_name: string;
                project_name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DocumentRestoreInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DocumentOut"];
                };
            };
        };
    };
    document_versions_list: {
        parameters: {
            query: {
                agent_id: string;
                cursor?: string;
                limit?: number;
                /** @description The text holds the entries that wait for approval, too. */
                pending?: boolean;
                user_id?: string;
            };
            header?: never;
            path: {
                document_name: string;
                project_name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DocumentVersionPage"];
                };
            };
        };
    };
    project_merge: {
        parameters: {
            query: {
                agent_id: string;
                user_id?: string;
            };
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                project_name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MergeInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TransferOut"];
                };
            };
        };
    };
    project_reactivate: {
        parameters: {
            query: {
                agent_id: string;
                user_id?: string;
            };
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                project_name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ReasonRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProjectOut"];
                };
            };
        };
    };
    projects_catalog: {
        parameters: {
            query: {
                agent_id: string;
                user_id?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description `1. **name** - description` */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
        };
    };
    project_events_list: {
        parameters: {
            query: {
                agent_id: string;
                cursor?: string;
                /**
                 * @description * `read` - read
                 *     * `route` - route
                 *     * `correct` - correct
                 *     * `update` - update
                 *     * `compact` - compact
                 *     * `restore` - restore
                 *     * `sync` - sync
                 *     * `export` - export
                 *     * `create` - create
                 *     * `archive` - archive
                 *     * `reactivate` - reactivate
                 *     * `merge` - merge
                 *     * `move` - move
                 *     * `delete` - delete
                 *     * `undo` - undo
                 */
                kind?: "read" | "route" | "correct" | "update" | "compact" | "restore" | "sync" | "export" | "create" | "archive" | "reactivate" | "merge" | "move" | "delete" | "undo";
                limit?: number;
                project?: string;
                user_id?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventPage"];
                };
            };
        };
    };
    project_event_undo: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                event_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ReasonRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProjectOut"];
                };
            };
        };
    };
    project_events_daily: {
        parameters: {
            query: {
                agent_id: string;
                days?: number;
                project?: string;
                user_id?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DaysOut"];
                };
            };
        };
    };
    projects_route: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RouteInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RouteOut"];
                };
            };
        };
    };
    routes_list: {
        parameters: {
            query: {
                agent_id: string;
                cursor?: string;
                limit?: number;
                user_id?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RoutePage"];
                };
            };
        };
    };
    route_correct: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                route_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CorrectionInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RouteOut"];
                };
            };
        };
    };
    route_misplaced_list: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                route_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MisplacedPage"];
                };
            };
        };
    };
    route_misplaced_move: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                route_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["MisplacedInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TransferOut"];
                };
            };
        };
    };
    receipt_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                receipt_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReceiptOut"];
                };
            };
        };
    };
    receipt_latest: {
        parameters: {
            query: {
                agent_id: string;
                session_id?: string;
                user_id?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReceiptOut"];
                };
            };
        };
    };
    sessions_list: {
        parameters: {
            query: {
                agent_id: string;
                cursor?: string;
                limit?: number;
                user_id?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionPage"];
                };
            };
        };
    };
    sessions_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SessionInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionOut"];
                };
            };
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionOut"];
                };
            };
        };
    };
    session_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionOut"];
                };
            };
        };
    };
    session_delete: {
        parameters: {
            query?: {
                /** @description Count what it would take, and delete nothing. */
                dry_run?: boolean;
            };
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeletionOut"];
                };
            };
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeletionOut"];
                };
            };
        };
    };
    session_update: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["PatchedSessionPatchRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionOut"];
                };
            };
        };
    };
    session_end: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionOut"];
                };
            };
        };
    };
    session_extract: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExtractionJobOut"];
                };
            };
        };
    };
    session_extraction: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExtractionOut"];
                };
            };
        };
    };
    session_forget: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ForgetInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeletionOut"];
                };
            };
        };
    };
    messages_list: {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MessagePage"];
                };
            };
        };
    };
    messages_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["OneOrManyInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MessagesOut"];
                };
            };
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MessagesOut"];
                };
            };
        };
    };
    session_stats: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StatsOut"];
                };
            };
        };
    };
    summary_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SummaryOut"];
                };
            };
        };
    };
    summary_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["SummaryOrderInRequest"];
            };
        };
        responses: {
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobIdOut"];
                };
            };
        };
    };
    summary_delete: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag you read. */
                "If-Match"?: string;
            };
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No response body */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    summary_update: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag you read. */
                "If-Match"?: string;
            };
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["PatchedSummaryPatchRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SummaryOut"];
                };
            };
        };
    };
    summary_restore: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
                /** @description The ETag you read. */
                "If-Match"?: string;
            };
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SummaryRestoreInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SummaryOut"];
                };
            };
        };
    };
    summary_versions_list: {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SummaryVersionPage"];
                };
            };
        };
    };
    sleep_runs_list: {
        parameters: {
            query: {
                agent_id: string;
                cursor?: string;
                dry_run?: boolean | null;
                limit?: number;
                user_id?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SleepPage"];
                };
            };
        };
    };
    sleep_runs_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SleepInRequest"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WholeSleepOut"];
                };
            };
        };
    };
    sleep_run_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WholeSleepOut"];
                };
            };
        };
    };
    sleep_run_undo: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ReasonRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WholeSleepOut"];
                };
            };
        };
    };
    summaries_list: {
        parameters: {
            query: {
                agent_id: string;
                cursor?: string;
                limit?: number;
                user_id?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SummaryPage"];
                };
            };
        };
    };
    summaries_digest: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DigestInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DigestOut"];
                };
            };
        };
    };
    tasks_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TaskInRequest"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskOut"];
                };
            };
        };
    };
    task_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                task_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OutcomeOut"];
                };
            };
        };
    };
    task_complete: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                task_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CompleteInRequest"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OutcomeOut"];
                };
            };
        };
    };
    usage_get: {
        parameters: {
            query: {
                agent_id: string;
                /**
                 * @description * `key` - key
                 *     * `user` - user
                 */
                by?: "key" | "user";
                from?: string;
                to?: string;
                user_id?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SpendingOut"];
                };
            };
        };
    };
    users_list: {
        parameters: {
            query: {
                agent_id: string;
                cursor?: string;
                limit?: number;
                user_id?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserPage"];
                };
            };
        };
    };
    webhooks_list: {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookPage"];
                };
            };
        };
    };
    webhooks_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["WebhookInRequest"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NewWebhookOut"];
                };
            };
        };
    };
    webhook_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                webhook_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookOut"];
                };
            };
        };
    };
    webhook_delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                webhook_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No response body */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    webhook_deliveries: {
        parameters: {
            query?: {
                cursor?: string;
                limit?: number;
            };
            header?: never;
            path: {
                webhook_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeliveryPage"];
                };
            };
        };
    };
    webhook_redeliver: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                delivery_id: string;
                webhook_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrderedOut"];
                };
            };
        };
    };
    webhook_enable: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                webhook_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookOut"];
                };
            };
        };
    };
    webhook_rotate: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                webhook_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NewWebhookOut"];
                };
            };
        };
    };
    webhook_test: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key and body again within 24 hours get the first answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                webhook_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrderedOut"];
                };
            };
        };
    };
}
