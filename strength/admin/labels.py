"""Screen labels and colours of the domain's values."""

from collections.abc import Mapping
from typing import Any, Final

from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from memoryhub.admin import labels
from strength.domain.memories import Status, TombstoneReason
from strength.domain.sleep import ChangeKind, ChangeReason, MergeState, RunState, Trigger
from strength.domain.strength import Impact, PointKind
from strength.models.task import TaskState

Labels = Mapping[Any, Any]

POINT_LABELS: Final[Labels] = {
    PointKind.CREATED: _("created"),
    PointKind.USED: _("used"),
    PointKind.IMPACT: _("had an impact"),
    PointKind.SET: _("set"),
    PointKind.SLEPT: _("slept"),
    PointKind.NOW: _("now"),
}
IMPACT_LABELS: Final[Labels] = {
    Impact.USER_POSITIVE: _("The user was satisfied"),
    Impact.TASK_SUCCESS: _("A task succeeded"),
    Impact.PREVENTED_ERROR: _("An error was prevented"),
}
STATUS_LABELS: Final[Labels] = {
    Status.ACTIVE: _("active"),
    Status.PENDING: _("pending"),
    Status.ARCHIVED: _("archived"),
    Status.REJECTED: _("rejected"),
}
STATUS_COLOURS: Final = {"active": "success", "pending": "warning", "archived": "info", "rejected": "danger"}
VERB_LABELS: Final[Labels] = {
    **{
        verb: labels.VERBS[verb]
        for verb in (
            "confirm", "edit", "relabel", "pin", "unpin", "archive", "reactivate", "approve", "approve_first",
            "reject", "restore", "return", "ask_to_forget", "lose_source", "merge", "unmerge", "undo",
        )
    },
    "create": pgettext_lazy("done", "written"),
    "supersede": pgettext_lazy("done", "superseded"),
    "sleep": pgettext_lazy("done", "by a sleep run"),
}  # fmt: skip
FIELD_LABELS: Final[Labels] = {
    "content": _("text"),
    "namespace": _("namespace"),
    "kind": _("kind"),
    "tags": _("tags"),
    "scope_level": _("scope"),
    "scope_domain": _("domain"),
    "scope_project": _("project"),
    "status": _("state"),
    "pinned": _("pinned"),
    "learnings": _("learnings"),
    "cues": _("cues"),
    "metadata": _("metadata"),
    "confidence": _("confidence"),
    "valid_from": _("holds from"),
    "valid_to": _("holds until"),
    "strength": _("strength"),
    "perspectives": _("strength by perspective"),
}
TRIGGER_LABELS: Final[Labels] = {
    Trigger.API: _("a program"),
    Trigger.TASK: _("the end of a task"),
    Trigger.SCHEDULE: _("the nightly schedule"),
    Trigger.COMMAND: _("a command"),
    Trigger.CURATOR: _("a curator"),
}
RUN_STATE_LABELS: Final[Labels] = {
    RunState.RUNNING: _("not finished"),
    RunState.DONE: _("done"),
    RunState.UNDONE: _("undone"),
    "preview": _("preview"),
}
RUN_COLOURS: Final = {"running": "warning", "done": "success", "undone": "danger", "preview": "info"}
CHANGE_LABELS: Final[Labels] = {
    ChangeKind.DECAY: _("fades"),
    ChangeKind.LEVEL: _("changes its level"),
    ChangeKind.ARCHIVE: _("is archived"),
    ChangeKind.HOLD: _("is due to be archived, and postponed"),
    ChangeKind.MERGE: _("is merged into another"),
    ChangeKind.PROPOSE_MERGE: _("is proposed to be merged"),
}
CHANGE_COLOURS: Final = {
    ChangeKind.ARCHIVE: "warning",
    ChangeKind.HOLD: "warning",
    ChangeKind.MERGE: "primary",
    ChangeKind.PROPOSE_MERGE: "primary",
    ChangeKind.LEVEL: "success",
    ChangeKind.DECAY: "",
}
SLEEP_REASON_LABELS: Final[Labels] = {
    ChangeReason.FADED: _("unused memories decay"),
    ChangeReason.USED_ENOUGH: _("it has been used often enough for another level"),
    ChangeReason.WEAK: _("its strength is at the archive threshold or below"),
    ChangeReason.OVER_LIMIT: _("there are more active memories than the policy allows, and it is among the weakest"),
    ChangeReason.EXPIRED: _("its validity has ended"),
    ChangeReason.DUPLICATE: _("it has the same content as another"),
}
SIMILARITY_LABELS: Final = (
    (0.85, _("very alike")),
    (0.55, _("alike")),
    (0.25, _("somewhat alike")),
    (0.0, _("a little alike")),
)
"""Labels of similarity by their minimum."""


def similarity_label(share: float) -> Any:
    return next(words for least, words in SIMILARITY_LABELS if share >= least or least == 0)


MERGE_STATE_LABELS: Final[Labels] = {
    MergeState.PROPOSED: _("proposed"),
    MergeState.MERGED: _("merged"),
    MergeState.DISMISSED: _("kept apart"),
    MergeState.WITHDRAWN: _("withdrawn"),
    MergeState.UNDONE: _("unmerged"),
}
MERGE_COLOURS: Final = {
    "proposed": "warning",
    "merged": "success",
    "dismissed": "info",
    "withdrawn": "",
    "outdated": "",
    "undone": "danger",
}
DECISION_LABELS: Final[Labels] = {
    TombstoneReason.DELETED: _("deleted"),
    TombstoneReason.REJECTED: _("rejected"),
    TombstoneReason.EDITED: _("edited"),
}
DECISION_COLOURS: Final = {"deleted": "danger", "rejected": "warning", "edited": "info"}
TASK_STATE_LABELS: Final[Labels] = {
    TaskState.BEGUN: _("started"),
    TaskState.COMPLETED: _("completed"),
    TaskState.FAILED: _("failed"),
}
TASK_COLOURS: Final = {"begun": "info", "completed": "success", "failed": "danger"}
