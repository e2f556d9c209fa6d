"""Screen of tasks: offered and used memories, and the result. Read-only."""

import json
from typing import Any, Final

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.base import OwnedMixin, ReadOnlyAdmin, excerpt, truncated
from memoryhub.admin.columns import UserFilter, choice_displays, column, whole_text
from strength.admin.labels import TASK_COLOURS, TASK_STATE_LABELS
from strength.admin.memory_detail import memory_links
from strength.models import Task

MAX_MEMORIES: Final = 100


@admin.register(Task)
class TaskAdmin(OwnedMixin, ReadOnlyAdmin):
    empty_hint = _("Programs begin and complete tasks by the API, to report which memories helped.")
    list_display = ("created_at", "shown_query", "owner", "shown_state", "used", "problems", "completed_at")
    list_filter = ("state", "actor__agent", UserFilter, "created_at")
    list_select_related = ("actor",)
    search_fields = ("query",)
    search_help_text = _("Words of what was asked, or the id of a task.")
    ordering = ("-created_at", "-id")
    list_deferred = ("offered", "result")
    long_text = "query"
    fields = (
        ("owner", "state_in_words", "perspective"),
        "whole_query",
        "shown_result",
        ("created_at", "completed_at"),
        "id",
    )
    change_form_outer_after_template = "admin/strength/task/memories.html"

    def title_of(self, row: Task) -> str:
        return truncated(row.query)

    shown_query = column(_("query"), lambda task: excerpt(task.opening, 80))
    whole_query = column(_("query"), lambda task: whole_text(task.query))

    @admin.display(description=_("result"))
    def shown_result(self, task: Task) -> str:
        if task.result is None:
            return "-"
        is_text = isinstance(task.result, str)
        return whole_text(task.result if is_text else json.dumps(task.result, ensure_ascii=False, indent=2))

    shown_state, state_in_words = choice_displays("state", TASK_STATE_LABELS, TASK_COLOURS, description=_("state"))
    used = column(_("memories used"), lambda task: len(task.used_memory_ids))
    problems = column(_("problems"), lambda task: len(task.errors))

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        offered, used = row.offered[:MAX_MEMORIES], row.used_memory_ids[:MAX_MEMORIES]
        offered_ids, used_ids = {entry["id"] for entry in offered}, {str(key) for key in row.used_memory_ids}
        memories = memory_links(request, [*offered_ids, *used, row.recorded_memory_id])
        rows = []
        for entry in offered:
            scores_of_entry = (entry.get("scores") or {}).items()
            scores = ", ".join(
                f"{name} {value:.2f}" for name, value in scores_of_entry if isinstance(value, int | float)
            )
            was_used = entry["id"] in used_ids
            rows.append({"memory": memories[entry["id"]], "scores": scores, "was_used": was_used})
        return {
            "offered": rows,
            "offered_left_out": len(row.offered) - len(offered),
            "other_used": [memories[str(key)] for key in used if str(key) not in offered_ids],
            "recorded": memories.get(str(row.recorded_memory_id)),
            "task_errors": row.errors[:MAX_MEMORIES],
            "errors_left_out": max(0, len(row.errors) - MAX_MEMORIES),
        }
