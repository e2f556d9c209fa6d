"""Requests and answers of the API. Written by `make schema` from the API's schema; do not edit."""

# ruff: noqa: E501
# fmt: off
from __future__ import annotations

from typing import Any, Literal, NotRequired, Required, TypedDict


class Write(TypedDict, total=False):
    """Options of every POST; a key is generated where none is given."""

    idempotency_key: str


class Whose(TypedDict, total=False):
    """The agent and user of a call; the client's own where it names none."""

    agent_id: str
    user_id: str


class Paging(TypedDict, total=False):
    """Size of the pages in which a list is fetched."""

    limit: int


class WhosePaging(Whose, Paging, total=False):
    pass


BlockType = Literal["text", "image", "image_url", "file", "tool_use", "tool_result", "thinking", "redacted_thinking"]
BulkInStatus = Literal["active", "pending", "archived", "rejected", "all"]
BulkInVerb = Literal["pin", "unpin", "archive", "reactivate", "reject", "relabel", "delete"]
ContextFormat = Literal["anthropic", "openai", "text"]
DocumentVersionKind = Literal["create", "edit", "append", "compaction", "restore", "sync", "merge", "move"]
EntryStatus = Literal["active", "pending"]
ExpectationOutState = Literal["kept", "broken"]
Generator = Literal["llm", "extractive", "person"]
ImpactType = Literal["user_positive", "task_success", "prevented_error"]
ImportFormat = Literal["honcho", "hindsight", "deepseek", "chatgpt", "claude", "openwebui", "librechat", "gemini", "grok", "mistral", "coding-agents", "markdown", "letta", "mem0", "table"]
ImportOrderInVerb = Literal["preview", "run", "undo", "pause", "resume"]
ImportState = Literal["uploading", "previewing", "importing", "undoing", "previewed", "imported", "undone", "failed"]
JobState = Literal["queued", "running", "done", "failed", "dead"]
Kinds = Literal["memory.created", "memory.changed", "memory.ended", "memory.waiting", "memory.decided", "memory.forgotten", "session.ended", "session.summarised", "project.routed_low", "document.compacted", "sleep.finished", "import.finished", "expectation.broken", "cap.reached"]
Language = Literal["en", "ja"]
MemoryFeedChange = Literal["created", "changed", "superseded", "archived", "rejected", "erased"]
MemoryKind = Literal["fact", "preference", "summary", "episode", "reflection", "learning", "decision", "note"]
MemoryPlacement = Literal["auto", "before_history", "with_user_message"]
MemoryScope = Literal["project", "domain", "universal"]
MemorySource = Literal["education", "task", "manual", "extraction", "import"]
MemoryStatus = Literal["active", "pending", "archived", "rejected"]
MergeState = Literal["proposed", "merged", "dismissed", "withdrawn", "undone"]
MessageRole = Literal["user", "assistant", "system", "tool"]
NewMessageRole = Literal["user", "assistant", "system", "tool", "kana", "yuno"]
ProfileGenerator = Literal["llm", "person"]
ProfileVersionOutVerb = Literal["write", "edit", "lock", "unlock", "restore"]
ProjectEventKind = Literal["read", "route", "correct", "update", "compact", "restore", "sync", "export", "create", "archive", "reactivate", "merge", "move", "delete", "undo"]
ProjectStatus = Literal["active", "archived", "deleted"]
Result = Literal["created", "reinforced", "refused"]
RoutingAction = Literal["route", "route_and_disclose", "ask", "propose_new"]
RoutingConfidence = Literal["high", "medium", "low"]
SleepRunState = Literal["running", "done", "undone"]
SleepTrigger = Literal["api", "task", "schedule", "command", "curator"]
SummaryVerb = Literal["write", "edit", "lock", "unlock", "restore", "delete"]
ToolCallInType = Literal["function"]
ToolInType = Literal["function", "custom"]
Trust = Literal["trusted", "untrusted"]
WebhookState = Literal["active", "disabled"]
WhatIfInVerb = Literal["edit", "pin", "unpin", "archive", "reactivate", "approve", "reject", "delete"]
WorkingMemoryScope = Literal["user", "session"]


class MergeIn(Whose, Write, total=False):
    """Project that another becomes part of."""

    reason: str
    into: Required[str]
    dry_run: bool


class Entry(TypedDict):
    """An appended line with its provenance.

`text` is null where a later version of the document does not hold the line; `text_digest` is the SHA-256 of the
line without its bullet."""

    id: str
    text: str | None
    text_digest: str
    pinned: NotRequired[bool]
    source: NotRequired[Any]
    trust: NotRequired[Trust]
    created_at: str


class Document(TypedDict):
    """A document; `token_count` is by o200k, with the `pending_entries` that wait for approval."""

    id: str
    name: str
    text: NotRequired[str]
    version: NotRequired[int]
    token_count: NotRequired[int]
    pending_entries: int
    created_at: str
    updated_at: str
    etag: NotRequired[str]


class ReceiptItem(TypedDict):
    """One candidate, and whether and why it entered."""

    layer: str
    source_id: str | None
    memory_ids: NotRequired[list[str] | None]
    excerpt: str
    tokens: int
    relevance: float | None
    final_score: float | None
    score_breakdown: ScoreBreakdown | None
    included: bool
    reason: str


class Webhook(TypedDict):
    """An endpoint. A `disabled` one failed for a day, or answered 410; `enable` continues where it stopped."""

    id: str
    agent_id: str | None
    url: str
    kinds: list[Kinds]
    with_texts: NotRequired[bool]
    state: WebhookState
    failures: int
    failing_since: str | None
    retry_at: str | None
    rotating_until: str | None
    created_at: str


class AgentWhatIfIn(Write, total=False):
    """A change of an agent that is not made."""

    name: str
    language: Language
    system_prompt: str
    domain: str
    related_domains: list[str]
    current_project: str
    fixed_user_id: str
    policy: Any
    strategies: StrategiesIn
    topics_include: list[str]
    topics_exclude: list[str]
    retrieval_config: Any


class Project(TypedDict):
    """A project; its description is MEMORY.md's first block quote.

An archived one is out of catalogs, routing and contexts; `merged_into` is the project that it became part of."""

    id: str
    name: str
    description: NotRequired[str]
    agent_id: str
    user_id: str
    status: ProjectStatus
    archived_at: NotRequired[str | None]
    deleted_at: NotRequired[str | None]
    merged_into: NotRequired[str | None]
    version: NotRequired[int]
    created_at: str
    updated_at: str


class Import(TypedDict):
    """An import; `report` counts what is, or would be, new (`made`), here already (`known`) and refused.

`report.dropped` has by reason the count and examples of what is left out by design."""

    id: str
    agent_id: str
    user_id: str
    format: str
    file_name: NotRequired[str]
    size: NotRequired[int]
    state: ImportState
    progress: Progress | None
    report: dict[str, Any]
    created_at: str
    previewed_at: NotRequired[str | None]
    imported_at: NotRequired[str | None]
    undone_at: NotRequired[str | None]


class CuratedIn(TypedDict, total=False):
    """The fields that people may edit; all are optional."""

    content: str
    kind: MemoryKind
    namespace: str
    tags: list[str]
    scope_level: MemoryScope
    scope_domain: str
    scope_project: str
    learnings: dict[str, str]
    metadata: Any
    cues: str
    pinned: bool
    confidence: float | None
    valid_from: str | None
    valid_to: str | None


class ContextMetadata(TypedDict):
    """Figures of what is in the context."""

    working_memory_count: int
    semantic_memory_count: int
    recall_count: int
    pinned_count: int
    profile_count: int
    has_session_summary: bool
    project: str | None
    total_tokens: int
    token_limit: int
    compression_applied: bool
    assembly_latency_ms: float
    exact_tokens: NotRequired[int | None]
    degraded: list[str]
    forget_request: NotRequired[str]
    layer_budgets: NotRequired[list[ShareUse]]
    trimmed_messages: NotRequired[int]


class Sleep(TypedDict):
    """One sleep, without its changes."""

    id: str
    agent_id: str
    user_id: str
    dry_run: NotRequired[bool]
    state: SleepRunState
    trigger: SleepTrigger
    decayed_count: NotRequired[int]
    archived_count: NotRequired[int]
    held_count: NotRequired[int]
    consolidated_count: NotRequired[int]
    merged_count: NotRequired[int]
    proposed_merges: int
    now: str
    processed_at: NotRequired[str | None]
    undone_at: NotRequired[str | None]
    errors: NotRequired[Any]


class MemoryItemIn(TypedDict, total=False):
    """A memory to write, of an actor that is named beside it."""

    content: Required[str]
    kind: MemoryKind
    namespace: str
    tags: list[str]
    scope_level: MemoryScope
    scope_domain: str
    scope_project: str
    learnings: dict[str, str]
    metadata: Any
    cues: str
    pinned: bool
    confidence: float | None
    valid_from: str | None
    valid_to: str | None
    perspective: str
    learning: str
    strength: float
    strength_by_perspective: dict[str, float]
    embedding: list[float]
    source_message_ids: list[str]
    channel: str
    source: MemorySource


class Actor(TypedDict):
    """A user's overrides, and every policy value in effect for that user."""

    agent_id: str
    user_id: str
    policy: dict[str, Any]
    effective_policy: dict[str, Any]
    etag: NotRequired[str]


class ActorWhatIfIn(Write, total=False):
    """Policy overrides of a user that are not stored."""

    policy: Required[Any]
    agent_id: str
    user_id: str


class AffectedItem(ReceiptItem):
    """An entry of a context, as in its receipt, and the number of contexts."""

    contexts: int


class AgentIn(AgentWhatIfIn, total=False):
    """A new agent."""

    agent_id: str


class Agent(TypedDict):
    """An agent; `strategies` has every strategy, `policy` only what differs from the defaults."""

    agent_id: str
    name: NotRequired[str]
    language: NotRequired[Language]
    system_prompt: NotRequired[str]
    domain: NotRequired[str]
    related_domains: NotRequired[list[str]]
    current_project: NotRequired[str]
    fixed_user_id: NotRequired[str]
    policy: NotRequired[Any]
    strategies: dict[str, bool]
    topics_include: NotRequired[list[str]]
    topics_exclude: NotRequired[list[str]]
    retrieval_config: NotRequired[Any]
    created_at: str
    updated_at: str
    etag: NotRequired[str]


class Appended(Document):
    """A document with a line appended; `pending`: the line stays out of contexts until it is approved."""

    status: EntryStatus


class ArchiveIn(Write, total=False):
    """Reason of a curated change; stored in the revision and the audit trail."""

    reason: str
    ids: Required[list[str]]


class Asked(TypedDict):
    """The part of a request that a receipt keeps to repeat it; no `project` where none was named."""

    author: NotRequired[str]
    project: NotRequired[str | None]
    perspective: str | None
    format: str
    options: dict[str, Any]


class BatchIn(TypedDict, total=False):
    """Several messages to store at once, in their order."""

    messages: Required[list[MessageIn]]


class BlockIn(TypedDict, total=False):
    """One block of a message: text, an image or a file, a call of a tool or its result, thinking."""

    type: Required[BlockType]
    text: str
    name: str
    media_type: str
    url: str
    image_url: Any
    id: str
    input: Any
    tool_use_id: str
    content: Any
    is_error: bool | None
    thinking: str
    signature: str
    citations: Any
    caller: Any
    toolset_name: Any
    cache_control: Any
    data: str
    source: Any


class BulkIn(Write, total=False):
    """A change of all memories that match filters. With `dry_run` nothing changes."""

    agent_id: str
    user_id: str
    status: BulkInStatus
    kind: list[MemoryKind]
    namespace: str
    tag: list[str]
    trust: Trust
    channel: str
    text: str
    pinned: bool | None
    metadata: str
    ended: bool
    as_of: str
    created_after: str
    created_before: str
    updated_after: str
    updated_before: str
    used_after: str
    used_before: str
    min_strength: float
    max_strength: float
    reason: str
    verb: Required[BulkInVerb]
    labels: LabelsIn
    dry_run: bool
    expected_count: int
    source: list[MemorySource]


class Bulk(TypedDict):
    """Number of memories that change, and the newest of them; `batch` is null for a dry run."""

    batch: str | None
    count: int
    sample: list[Memory]


class BulkState(TypedDict):
    """Progress of a batch. `verb` is `undo` once its undo was ordered; `changed` counts what it changed."""

    batch: str
    verb: str
    state: str
    done: int
    total: int | None
    changed: int


class Called(TypedDict):
    """A call of a tool; the client sends its result as one of `tool_results`."""

    id: str
    name: str
    input: dict[str, Any]


class Change(TypedDict):
    """A change that a sleep made, or would make, to a memory."""

    memory_id: str
    change: str
    why: str


class Changes(TypedDict):
    """Changes, oldest first, and the cursor to ask with next."""

    results: list[MemoryChange]
    cursor: int
    has_more: bool


class ChatIn(Write, total=False):
    """A message that a model is to answer."""

    agent_id: str
    user_id: str
    session_id: str | None
    channel: str
    project: str | None
    perspective: str | None
    message: str | list[BlockIn]
    author: str
    tools: list[ToolIn]
    tool_results: list[ToolResultIn]
    memory: bool
    store: bool
    options: OptionsIn


class Chat(TypedDict):
    """An answer, whole and stored."""

    status: str
    model: str
    text: str
    tool_calls: list[Called]
    session_id: str | None
    message_id: str | None
    answer_id: str | None
    context_metadata: ContextMetadata | None
    routing: Routing | None
    receipt_id: str | None
    usage: Usage


class CheckIn(Write, total=False):
    """The user of whom the expectations are checked."""

    agent_id: str
    user_id: str


class Checked(TypedDict):
    kept: int
    broken: list[Expectation]


class ChunkIn(Write, total=False):
    """Some bytes of the file."""

    offset: Required[int]
    content: Required[str]


class ComparedContext(TypedDict):
    """A context that would change; one side is null where the context is refused, such as for its limit."""

    receipt_id: str
    user_id: str
    created_at: str
    query: str
    before: ContextSide | None
    after: ContextSide | None


class CompleteIn(Write, total=False):
    """The result of a task. `used_memory_ids` takes precedence over use detection."""

    result: Required[Any]
    used_memory_ids: list[str] | None
    perspective: str | None
    learning_content: str | None
    learning_text: str | None
    extract_learning: bool
    impact_type: ImpactType | None
    run_sleep_phase: bool


class ContextIn(Write, total=False):
    """A request for a context."""

    agent_id: str
    user_id: str
    session_id: str | None
    project: str | None
    message: Required[str | list[BlockIn]]
    author: str
    perspective: str | None
    format: ContextFormat
    exact_tokens: bool
    options: OptionsIn


class Context(TypedDict):
    """A context, ready for a provider."""

    system: Any
    messages: list[dict[str, Any]]
    metadata: ContextMetadata
    routing: Routing | None
    receipt_id: str | None


class ContextSide(TypedDict):
    """One of the two contexts; its entries that the other does not have, or has with another text."""

    total_tokens: int
    token_limit: int
    holds_memory: bool
    only: list[ReceiptItem]


class CorrectionIn(Write, total=False):
    """Correct project of a message; null if it belongs to none."""

    reason: str
    project: Required[str | None]


class Cost(TypedDict):
    """Upper bound of calls, tokens and cost to extract from an import's new conversations."""

    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    dollars: float | None


class Count(TypedDict):
    count: int


class Day(TypedDict):
    """Events of one kind of a project on one day of the user's time zone."""

    day: str
    project: str
    kind: str
    events: int
    tokens: int


class Days(TypedDict):
    """Sums by day."""

    results: list[Day]


class Deletion(TypedDict):
    """Count the rows that a deletion deletes, by kind."""

    session_id: str
    dry_run: bool
    counts: dict[str, int]
    job_id: str | None


class Delivery(TypedDict):
    """An attempt to deliver an event: the answer's status, or in `error` why there was none."""

    id: str
    kind: str
    status: NotRequired[int | None]
    error: NotRequired[str]
    duration_ms: NotRequired[int]
    at: str


class DigestIn(Write, total=False):
    """Sessions of a digest, by time window or project."""

    agent_id: str
    user_id: str
    from_: str | None
    to: str | None
    project: str | None


class Digest(TypedDict):
    """One text about several sessions."""

    digest: str
    generator: str
    model: str
    session_ids: list[str]
    left_out: int
    start_time: str
    end_time: str


class DocumentChange(TypedDict):
    """Lines that a document gains, and those it holds already."""

    name: str
    added: int
    repeated: int
    is_new: bool


class DocumentHead(TypedDict):
    """A document without its text: `title` is its first line where that is a heading, `size` its bytes in UTF-8."""

    name: str
    title: str
    size: int
    version: NotRequired[int]
    token_count: NotRequired[int]
    created_at: str
    updated_at: str


class DocumentIn(Whose, total=False):
    """Whole text of a document."""

    reason: str
    text: Required[str]


class DocumentRestoreIn(Whose, Write, total=False):
    """Version to restore."""

    reason: str
    number: Required[int]


class DocumentVersion(TypedDict):
    """Former text of a document, with how, by whom, why and when it was replaced."""

    id: str
    number: int
    text: NotRequired[str]
    kind: DocumentVersionKind
    by: dict[str, str]
    reason: NotRequired[str]
    created_at: str


class Effect(TypedDict):
    """The effect of a change on the latest contexts, were they assembled now. Nothing was changed."""

    contexts: int
    held_before: int
    held_after: int
    brings_in: list[AffectedItem]
    pushes_out: list[AffectedItem]
    changed: list[ComparedContext]
    etag: NotRequired[str]


class EntryIn(Whose, Write, total=False):
    """One line for a document, with its channel."""

    text: Required[str]
    pinned: bool
    channel: str


class Erased(TypedDict):
    """Number of rows deleted and anonymised, by table; `remains` names copies that an erasure cannot reach."""

    erased: dict[str, int]
    anonymised: dict[str, int]
    remains: list[str]
    vacuum_job_id: str | None


class Event(TypedDict):
    """Event of a project."""

    id: str
    project: str
    kind: ProjectEventKind
    tokens: NotRequired[int]
    outcome: NotRequired[str]
    details: NotRequired[Any]
    undoable: bool
    undone_at: NotRequired[str | None]
    created_at: str


class ExpectationIn(Write, total=False):
    """Serializer that rejects unknown keys, so that a misspelt option is an error."""

    receipt_id: Required[str]
    memory_id: Required[str]
    wanted: bool


class Expectation(TypedDict):
    id: str
    user_id: str
    receipt_id: str
    memory_id: str
    wanted: bool
    query: str
    state: ExpectationOutState
    created_at: str
    checked_at: str
    kept_at: NotRequired[str | None]
    broken_at: NotRequired[str | None]


class ExtractionJob(TypedDict):
    job_id: str


class Extraction(TypedDict):
    """The state of a session's extraction; `is_complete`: every strategy that is on has read every message."""

    session_id: str
    message_count: int
    is_complete: bool
    strategies: list[StrategyState]
    job_id: str | None
    job_state: str | None


class FiltersIn(TypedDict, total=False):
    """Serializer that rejects unknown keys, so that a misspelt option is an error."""

    kind: list[MemoryKind]
    namespace: str
    tags: list[str]
    status: MemoryStatus
    created_after: str
    created_before: str
    as_of: str
    metadata: Any


class ForgetIn(Write, total=False):
    """A range of a session's messages, both ends included."""

    reason: str
    from_seq: Required[int]
    to_seq: Required[int]
    dry_run: bool


class FoundMemory(TypedDict):
    """A memory with its scores."""

    memory: Memory
    similarity: float | None
    final_score: float
    score_breakdown: ScoreBreakdown


class Found(TypedDict):
    """A memory or, with `include_messages`, a past message, with its scores."""

    memory: NotRequired[Memory]
    message: NotRequired[Message]
    similarity: float | None
    final_score: float
    score_breakdown: ScoreBreakdown


class FunctionIn(TypedDict, total=False):
    """The function that a model calls, in OpenAI's form."""

    name: Required[str]
    arguments: Required[str]


class History(TypedDict):
    results: list[Point]


class IdsIn(Write, total=False):
    """Serializer that rejects unknown keys, so that a misspelt option is an error."""

    ids: Required[list[str]]


class ImpactIn(Write, total=False):
    """An impact of a memory beyond being used."""

    impact_type: Required[ImpactType]


class ImportIn(Write, total=False):
    """A new import; without a `user_id` the file must name the user of each memory (mem0)."""

    agent_id: str
    user_id: str
    file_name: Required[str]
    format: ImportFormat
    columns: str


class ImportOrderIn(Write, total=False):
    """The step to take; a `format` corrects the one that was recognised.

`preview`, `run` and `undo` are jobs; `pause` and `resume` apply to the extraction of what was imported."""

    verb: Required[ImportOrderInVerb]
    format: ImportFormat


class ItemError(TypedDict):
    field: str | None
    code: str
    detail: str


class JobId(TypedDict):
    """Job that was enqueued."""

    job_id: str


class Job(TypedDict):
    """A job; `failed` would fail again, `dead` was given up after three attempts."""

    id: str
    kind: str
    state: JobState
    attempts: int
    error: str
    progress: Progress | None
    created_at: str
    finished_at: str | None


class KeyUsageRow(TypedDict):
    """A day's calls that one API key caused."""

    day: str
    calls: int
    failures: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    key_id: str | None
    name: str


class LabelsIn(TypedDict, total=False):
    """New tags, kind and namespace; `{actorId}` is filled in."""

    add_tags: list[str]
    remove_tags: list[str]
    kind: MemoryKind
    namespace: str


class ManyUsedIn(Write, total=False):
    """A report of use of several memories."""

    perspective: str | None
    task_id: str | None
    ids: Required[list[str]]


class MemoriesIn(Write, total=False):
    """Memories to write, each as `POST memories` takes it, without agent and user."""

    agent_id: str
    user_id: str
    memories: Required[list[MemoryItemIn]]


class MemoriesWritten(TypedDict):
    """An answer for each item, in their order."""

    results: list[Written]


class MemoryChange(TypedDict):
    """A change of a memory. `version` is the memory's after it; `user_id` is null where the user was erased since."""

    id: int
    agent_id: str
    user_id: str | None
    memory_id: str
    change: MemoryFeedChange
    version: int
    at: str


class MemoryDeletion(TypedDict):
    """A deleted memory."""

    source_message_ids: list[str]
    counts: dict[str, int]
    etag: NotRequired[str]


class MemoryIn(MemoryItemIn, Write, total=False):
    """A memory to write."""

    agent_id: str
    user_id: str


class Memory(TypedDict):
    """A memory with its numbers and its sources."""

    id: str
    agent_id: str
    user_id: str
    content: str
    namespace: str
    kind: NotRequired[MemoryKind]
    tags: NotRequired[list[str]]
    scope_level: NotRequired[MemoryScope]
    scope_domain: NotRequired[str]
    scope_project: NotRequired[str]
    status: NotRequired[MemoryStatus]
    pinned: NotRequired[bool]
    locked: NotRequired[bool]
    source: NotRequired[MemorySource]
    channel: NotRequired[str]
    trust: NotRequired[Trust]
    confidence: NotRequired[float | None]
    strength: float
    strength_by_perspective: dict[str, float]
    access_count: int
    candidate_count: int
    last_accessed_at: str
    impact_score: float
    consolidation_level: int
    learnings: NotRequired[Any]
    metadata: NotRequired[Any]
    cues: NotRequired[str]
    said_on: str | None
    valid_from: NotRequired[str | None]
    valid_to: NotRequired[str | None]
    superseded_by: str | None
    sources: list[Source]
    version: NotRequired[int]
    created_at: str
    updated_at: str
    last_decay_at: str | None
    etag: NotRequired[str]


class Merge(TypedDict):
    """Two memories with the same content, as a proposal or a decided merge."""

    id: str
    agent_id: str
    user_id: str
    kept: Memory
    absorbed: Memory
    likeness: float
    state: NotRequired[MergeState]
    decided_by: NotRequired[str]
    reason: NotRequired[str]
    created_at: str
    decided_at: NotRequired[str | None]


class MergeWhatIfIn(Write, total=False):
    """A merge that is not made."""

    keep_id: str


class MessageIn(TypedDict, total=False):
    """A message to store, in the form of either vendor."""

    role: Required[NewMessageRole]
    content: str | list[BlockIn] | None
    tool_calls: list[ToolCallIn] | None
    tool_call_id: str | None
    author: str
    client_message_id: str | None
    created_at: str | None
    metadata: Any
    merge: bool


class Message(TypedDict):
    """A message as it is stored; `content` is as it was sent."""

    id: str
    session_id: str
    seq: int
    role: MessageRole
    author: NotRequired[str]
    content: Any
    token_count: int
    trust: NotRequired[Trust]
    created_at: str
    utc_offset_minutes: NotRequired[int | None]
    client_message_id: NotRequired[str | None]
    metadata: NotRequired[Any]
    abandoned_at: NotRequired[str | None]


class Messages(TypedDict):
    """The stored messages, in the batch's order."""

    results: list[Message]


class MisplacedIn(Write, total=False):
    """Lines to move after a correction; by default all."""

    reason: str
    entry_ids: list[str]
    dry_run: bool


class Misplaced(Entry):
    """A line that was written into a project because of a decision that was corrected since."""

    document: str


class MoveIn(MergeIn, total=False):
    """Lines of a document, and the project that they go to."""

    lines: Required[list[str]]
    new_project: bool
    document: str


class NewWebhook(Webhook):
    """An endpoint with its secret, which no other answer has."""

    secret: str


class OneImport(Import):
    """An import with what the extraction of its new conversations takes."""

    extraction_cost: Cost | None
    extraction: Reading | None


class OneOrManyIn(Write, total=False):
    role: NewMessageRole
    content: str | list[BlockIn] | None
    tool_calls: list[ToolCallIn] | None
    tool_call_id: str | None
    author: str
    client_message_id: str | None
    created_at: str | None
    metadata: Any
    merge: bool
    messages: list[MessageIn]


class OptionsIn(TypedDict, total=False):
    """Policy values for one call."""

    working_memory_limit: int
    working_memory_scope: WorkingMemoryScope
    semantic_memory_limit: int
    recall_limit: int
    recall_share: float
    profile_max_tokens: int
    profile_share: float
    max_tokens: int
    token_safety_margin: float
    memory_placement: MemoryPlacement
    include_pinned: bool
    include_semantic_memory: bool
    include_profile: bool
    include_recall: bool
    include_project: bool
    include_session_summary: bool
    include_clock: bool
    include_relevance: bool
    include_tools: bool
    cache: bool


class Ordered(TypedDict):
    """The job that sends it; its answer will be in the deliveries."""

    job_id: str


class Outcome(TypedDict):
    """The outcome of a task."""

    task_id: str
    task_result: Any
    searched_memories: list[FoundMemory]
    used_memory_ids: list[str]
    recorded_memory_id: str | None
    executed_at: str | None
    errors: list[str]


class ActorPatch(Whose, total=False):
    """Policy overrides of a user."""

    policy: Any


class AgentPatch(TypedDict, total=False):
    """Fields of an agent that can be set."""

    name: str
    language: Language
    system_prompt: str
    domain: str
    related_domains: list[str]
    current_project: str
    fixed_user_id: str
    policy: Any
    strategies: StrategiesIn
    topics_include: list[str]
    topics_exclude: list[str]
    retrieval_config: Any


class MemoryPatch(CuratedIn, total=False):
    """A partial update: fields that are left out stay as they are."""

    reason: str


class ProfilePatch(Whose, total=False):
    """Changes of a written profile; a new text locks it unless `locked` is false."""

    reason: str
    text: str
    locked: bool


class ProjectPatch(Whose, total=False):
    """Changes of a project."""

    reason: str
    name: str
    description: str


class SessionPatch(TypedDict, total=False):
    """Fields of a session that can be changed; `metadata` is replaced as a whole."""

    title: str
    metadata: Any


class SummaryPatch(TypedDict, total=False):
    """Changes of a summary; a new text locks it unless `locked` is false."""

    reason: str
    summary: str
    locked: bool


class Point(TypedDict):
    """A memory's strength after an event."""

    at: str
    kind: str
    strength: float
    level: int
    times: int


class ProfileJob(TypedDict):
    """Job that was enqueued."""

    job_id: str


class ProfileLine(TypedDict):
    """A line of a written profile, or a memory itself, with the memories that it rests on."""

    text: str
    memory_ids: list[str]
    is_written: bool


class Profile(TypedDict):
    """The profile that contexts offer of a user, best line first; `written` is null where no text was written."""

    agent_id: str
    user_id: str
    lines: list[ProfileLine]
    written: WrittenProfile | None
    etag: NotRequired[str]


class ProfileRestoreIn(Write, total=False):
    """Version to restore."""

    agent_id: str
    user_id: str
    reason: str
    number: Required[int]


class ProfileVersion(TypedDict):
    """A written profile as it was after one change, without lines of memories that were deleted since."""

    id: str
    number: int
    verb: ProfileVersionOutVerb
    by: dict[str, str]
    reason: NotRequired[str]
    text: str
    generator: ProfileGenerator
    model: NotRequired[str]
    locked: NotRequired[bool]
    created_at: str


class Progress(TypedDict):
    """Progress of long work."""

    done: int
    total: int | None


class ProjectIn(Write, total=False):
    """A new project."""

    agent_id: str
    user_id: str
    name: Required[str]
    description: str


class ProjectWithDocuments(Project):
    """A project with its documents."""

    documents: list[DocumentHead]
    etag: NotRequired[str]


class Reading(TypedDict):
    """Messages of an import that a model reads: all, those that wait, and those passed over while it is paused."""

    messages: int
    waiting: int
    skipped: int


class Reason(Write, total=False):
    """Reason of a curated change; stored in the revision and the audit trail."""

    reason: str


class ReceiptMetadata(ContextMetadata):
    """Figures of a context, and its request."""

    asked: NotRequired[Asked]


class Receipt(TypedDict):
    """Why a context was what it was."""

    id: str
    created_at: str
    session_id: str | None
    query: str
    token_limit: int
    total_tokens: int
    metadata: ReceiptMetadata
    items: list[ReceiptItem]


class Reinforced(TypedDict):
    """The number of reinforced memories, and the unknown ids."""

    reinforced: int
    unknown: list[str]


class RestoreIn(Write, total=False):
    """Reason of a curated change; stored in the revision and the audit trail."""

    reason: str
    revision_id: Required[str]


class RetrieveIn(Write, total=False):
    """A query, and how many results each namespace gives."""

    agent_id: str
    user_id: str
    query: Required[str]
    config: Any


class Retrieve(TypedDict):
    namespaces: dict[str, list[FoundMemory]]
    degraded: list[str]


class Revision(TypedDict):
    id: str
    number: int
    verb: str
    by: dict[str, str]
    reason: NotRequired[str]
    changed_before: NotRequired[Any]
    changed_after: NotRequired[Any]
    created_at: str


class RouteIn(Write, total=False):
    """Message to be routed."""

    agent_id: str
    user_id: str
    message: Required[str]
    channel: str
    session_id: str | None


class Route(TypedDict):
    """Routing decision: project or proposal, confidence, action, and correction."""

    id: str
    project: NotRequired[str | None]
    proposed_name: str | None
    confidence: RoutingConfidence
    action: RoutingAction
    reason: NotRequired[str]
    message: str
    channel: str
    session_id: str | None
    trust: NotRequired[Trust]
    corrected_project: NotRequired[str | None]
    corrected_by: NotRequired[str]
    corrected_at: NotRequired[str | None]
    created_at: str


class Routing(TypedDict):
    """Project that the message was routed to."""

    id: str
    project: str | None
    confidence: RoutingConfidence
    action: RoutingAction
    proposed_name: str | None


class ScoreBreakdown(TypedDict):
    """Parts of a score: `own_relevance` of messages only, weights, strength and recency of memories only."""

    similarity_raw: NotRequired[float | None]
    word_raw: NotRequired[float | None]
    own_relevance: NotRequired[float]
    relevance: NotRequired[float]
    similarity_weighted: NotRequired[float]
    strength_raw: NotRequired[float]
    strength_normalized: NotRequired[float]
    strength_weighted: NotRequired[float]
    recency_raw: NotRequired[float]
    recency_weighted: NotRequired[float]
    total: NotRequired[float]


class SearchIn(Write, total=False):
    """A search, by text or by vector. `others` are users or agents whose memories are searched as well."""

    agent_id: str
    user_id: str
    others: list[Tenant]
    query: str
    embedding: list[float]
    perspective: str | None
    project: str | None
    limit: int
    candidate_limit: int
    similarity_threshold: float
    filters: FiltersIn
    include_messages: bool
    mark_candidates: bool


class Search(TypedDict):
    """The best memories; with `include_messages`, the best past messages after them."""

    results: list[Found]
    candidate_count: int
    searched_for: str
    degraded: list[str]


class SessionIn(Write, total=False):
    """A session to open."""

    agent_id: str
    user_id: str
    session_id: str
    channel: str
    title: str
    metadata: Any


class Session(TypedDict):
    """A session."""

    id: str
    agent_id: str
    user_id: str
    channel: NotRequired[str]
    title: NotRequired[str]
    started_at: str
    ended_at: NotRequired[str | None]
    message_count: NotRequired[int]
    last_message_at: NotRequired[str | None]
    metadata: NotRequired[Any]


class ShareUse(TypedDict):
    """A layer's share of the limit, its allowed tokens, and those used."""

    layer: str
    share: float
    allowed: int
    used: int


class SleepIn(Write, total=False):
    """The actor whose memory sleeps; with `all_users`, the agent and all its users."""

    agent_id: str
    user_id: str
    all_users: bool
    dry_run: bool


class Source(TypedDict):
    """A message that a memory was drawn from."""

    message_id: str
    session_id: str
    channel: NotRequired[str]
    trust: Trust
    created_at: str


Spending = TypedDict("Spending", {
    "agent_id": 'str',
    "user_id": 'str | None',
    "results": 'list[UsageRow]',
    "keys": 'list[KeyUsageRow] | None',
    "users": 'list[UserUsageRow] | None',
    "today": 'Today',
    "from": 'str',
    "to": 'str',
})


class Stats(TypedDict):
    """A session in numbers."""

    session_id: str
    message_count: int
    first_message_time: str | None
    last_message_time: str | None
    duration_seconds: int | None
    has_summary: bool
    last_summary_time: str | None


class StrategiesIn(TypedDict, total=False):
    """Long-term strategies, switched on or off; omitted ones are on."""

    semantic: bool
    user_preference: bool
    summary: bool
    episodic: bool
    reflection: bool


class StrategyState(TypedDict):
    """Progress of a strategy: the `seq` up to which it has read, and the messages that it passed over."""

    strategy: str
    is_on: bool
    read_until: int
    passed_after: int
    passed_until: int


class StrengthIn(TypedDict, total=False):
    """Serializer that rejects unknown keys, so that a misspelt option is an error."""

    id: Required[str]
    strength: Required[float]


class StrengthsIn(Write, total=False):
    """Serializer that rejects unknown keys, so that a misspelt option is an error."""

    updates: Required[list[StrengthIn]]


class SummaryOrderIn(Write, total=False):
    """Time window of the summary; without one, the session up to now."""

    start_time: str | None
    end_time: str | None


class Summary(TypedDict):
    """Summary of a session; `message_count` is the last message that it covers."""

    id: str
    session_id: str
    agent_id: str
    user_id: str
    summary: str
    message_count: int
    start_time: str
    end_time: str
    model: NotRequired[str]
    generator: Generator
    trust: NotRequired[Trust]
    locked: NotRequired[bool]
    version: NotRequired[int]
    created_at: str
    updated_at: str
    etag: NotRequired[str]


class SummaryRestoreIn(Write, total=False):
    """Version to restore."""

    reason: str
    number: Required[int]


class SummaryVersion(TypedDict):
    """A summary as it was after one change."""

    id: str
    number: int
    verb: SummaryVerb
    by: dict[str, str]
    reason: NotRequired[str]
    summary: str
    message_count: int
    model: NotRequired[str]
    generator: Generator
    trust: Trust
    locked: bool
    created_at: str


class SupersedeIn(Write, total=False):
    """A memory that replaces another, and the time from which it is valid."""

    reason: str
    content: Required[str]
    tags: list[str]
    source_message_ids: list[str]
    channel: str
    confidence: float | None
    valid_from: str
    source: MemorySource


class TaskIn(Write, total=False):
    """Agent and user, as most bodies carry them."""

    agent_id: str
    user_id: str
    query: Required[str]
    perspective: str | None
    project: str | None


class Task(TypedDict):
    """A new task with the memories found for it."""

    task_id: str
    memories: list[FoundMemory]
    routing: Routing | None


class Tenant(Write, total=False):
    """Agent and user, as most bodies carry them."""

    agent_id: str
    user_id: str


class Today(TypedDict):
    """The agent's usage today, all users together (for a key bound to a user: of that user), and its caps."""

    cost: float
    tokens: int
    daily_spend_cap: float | None
    daily_token_cap: int | None
    is_paused: bool
    paused_until: str | None


class ToolCallIn(TypedDict, total=False):
    """A call of a tool in OpenAI's form."""

    id: Required[str]
    type: ToolCallInType
    function: Required[FunctionIn]


class ToolIn(TypedDict, total=False):
    """A tool that the model may call, in Anthropic's form or, with `function`, in OpenAI's."""

    type: ToolInType | None
    name: str
    description: str
    input_schema: Any
    function: Any


class ToolResultIn(TypedDict, total=False):
    """The result of a tool that the last answer called."""

    tool_use_id: Required[str]
    content: Required[Any]
    is_error: bool


class Transfer(TypedDict):
    """Result or preview of a merge or move; `event_id` undoes it."""

    project: str
    into: str
    documents: list[DocumentChange]
    routes: int
    corrections: int
    event_id: NotRequired[str | None]


class Updated(TypedDict):
    """The number of changed memories, and the unknown ids."""

    updated: int
    unknown: list[str]


class Usage(TypedDict):
    """Tokens counted by the provider."""

    input_tokens: int
    output_tokens: int


class UsageRow(TypedDict):
    """A day's calls of one operation to one model."""

    day: str
    calls: int
    failures: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    operation: str
    model: str


class UsedIn(Write, total=False):
    """A report of use; with a `task_id` it counts once per task."""

    perspective: str | None
    task_id: str | None


class User(TypedDict):
    """A user of an agent, with counts and the time of the last message."""

    agent_id: str
    user_id: NotRequired[str]
    created_at: str
    session_count: int
    message_count: int
    last_message_at: str | None


class UserUsageRow(TypedDict):
    """A day's calls for one user."""

    day: str
    calls: int
    failures: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    user_id: str | None


class WebhookIn(Write, total=False):
    """An endpoint that gets events from now on."""

    url: Required[str]
    agent_id: str
    kinds: list[Kinds]
    with_texts: bool


class WhatIfIn(Write, total=False):
    """A change of a memory that is not made; `values` are those of an edit, or corrections of an approval."""

    verb: WhatIfInVerb
    values: CuratedIn


class WholeSleep(Sleep):
    """A sleep with its changes; `runs` are the sleeps of all users, where one call began them."""

    changes: list[Change]
    runs: list[Sleep]


class WrittenLine(TypedDict):
    """A line of a written profile; it is not shown where one of its memories changed or does not hold any more."""

    text: str
    memory_ids: list[str]
    is_shown: bool


class Written(TypedDict):
    """Result of an item: `created`, `reinforced`, or `refused` with its errors."""

    result: Result
    id: str | None
    status: str | None
    errors: list[ItemError]


class WrittenProfile(TypedDict):
    """The text that a model or a person wrote, line by line."""

    id: str
    lines: list[WrittenLine]
    generator: ProfileGenerator
    model: NotRequired[str]
    locked: NotRequired[bool]
    version: NotRequired[int]
    created_at: str
    updated_at: str


class WhoseWrite(Whose, Write, total=False):
    pass


class WhoseReason(Whose, Reason, total=False):
    pass


class MemoriesCountQuery(Whose, total=False):
    as_of: str
    channel: str
    created_after: str
    created_before: str
    ended: bool
    kind: list[Literal["fact", "preference", "summary", "episode", "reflection", "learning", "decision", "note"]]
    max_strength: float
    metadata: str
    min_strength: float
    namespace: str
    pinned: bool | None
    source: list[Literal["education", "task", "manual", "extraction", "import"]]
    status: Literal["active", "pending", "archived", "rejected", "all"]
    tag: list[str]
    text: str
    trust: Literal["trusted", "untrusted"]
    updated_after: str
    updated_before: str
    used_after: str
    used_before: str


class ChangesListQuery(Whose, Paging, total=False):
    after: int
    all_users: bool


class ExpectationsListQuery(Whose, Paging, total=False):
    state: Literal["kept", "broken"]


class MemoriesListQuery(MemoriesCountQuery, Paging, total=False):
    ordering: Literal["created_at", "-created_at", "strength", "-strength", "last_accessed_at", "-last_accessed_at"]
    q: str


class MemoryDeleteQuery(TypedDict, total=False):
    with_sources: bool


class MergesListQuery(Whose, Paging, total=False):
    state: Literal["proposed", "merged", "dismissed", "withdrawn", "undone", "all"]


class MessageDeleteQuery(TypedDict, total=False):
    dry_run: bool


class ProjectsListQuery(Whose, Paging, total=False):
    status: Literal["active", "archived", "deleted", "all"]


class DocumentGetQuery(Whose, total=False):
    pending: bool


class DocumentBackupsListQuery(Whose, total=False):
    pending: bool


class DocumentVersionsListQuery(Whose, Paging, total=False):
    pending: bool


class ProjectEventsListQuery(Whose, Paging, total=False):
    kind: Literal["read", "route", "correct", "update", "compact", "restore", "sync", "export", "create", "archive", "reactivate", "merge", "move", "delete", "undo"]
    project: str


class ProjectEventsDailyQuery(Whose, total=False):
    days: int
    project: str


class ReceiptLatestQuery(Whose, total=False):
    session_id: str


class SessionDeleteQuery(TypedDict, total=False):
    dry_run: bool


class SleepRunsListQuery(Whose, Paging, total=False):
    dry_run: bool | None


class UsageGetQuery(Whose, total=False):
    by: Literal["key", "user"]
    from_: str
    to: str
