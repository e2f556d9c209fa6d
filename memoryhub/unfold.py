"""The admin's frame: title, sidebar and assets, as django-unfold reads them from the settings."""

from typing import Any

from django.templatetags.static import static
from django.urls import reverse_lazy
from django.utils.translation import gettext_lazy as _

# A drawing in the address itself: browsers ask for no file.
FAVICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'%3E"
    "%3Ccircle cx='12' cy='12' r='10' fill='%237c3aed'/%3E%3C/svg%3E"
)


def _screen(title: Any, icon: str, name: str) -> dict[str, Any]:
    """Return a sidebar entry; it is seen by whoever may see the list behind it."""
    if name == "index":
        return {"title": title, "icon": icon, "link": reverse_lazy("admin:index")}
    app, _sep, model = name.partition("_")
    return {
        "title": title,
        "icon": icon,
        "link": reverse_lazy(f"admin:{name}_changelist"),
        "permission": lambda request: request.user.has_perm(f"{app}.view_{model}"),
    }


def _page(title: Any, icon: str, name: str) -> dict[str, Any]:
    """Return a sidebar entry of a page that belongs to no single model: for whom it opens."""

    def may(request: Any) -> bool:
        from memoryhub.admin.base import needs_of  # the admin is loaded after these settings

        return bool(request.user.has_perms(needs_of(name)))

    return {"title": title, "icon": icon, "link": reverse_lazy(name), "permission": may}


UNFOLD = {
    "SITE_TITLE": "memoryhub",
    "SITE_HEADER": "memoryhub",
    "SITE_SUBHEADER": _("curated memory for agents"),
    "SITE_SYMBOL": "neurology",
    "SITE_URL": None,
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": FAVICON}],
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    "SHOW_LANGUAGES": True,
    "ACCOUNT": {
        "navigation": [
            {"title": _("Time zone"), "link": reverse_lazy("time_zone")},
            {"title": _("Change password"), "link": reverse_lazy("admin:password_change")},
        ]
    },
    "STYLES": [lambda request: static("memoryhub/admin.css")],
    "SCRIPTS": [lambda request: static("memoryhub/labels.js")],
    "DASHBOARD_CALLBACK": "memoryhub.admin.dashboard.first_page",
    "SIDEBAR": {
        "show_search": False,
        "navigation": [
            {"items": [_screen(_("Dashboard"), "space_dashboard", "index")]},
            {
                "title": _("Memory"),
                "separator": True,
                "items": [
                    _screen(_("Memories"), "neurology", "strength_memory"),
                    {
                        **_page(_("Review"), "rule", "review"),
                        "badge": "strength.admin.review.badge",
                        "badge_variant": "primary",
                    },
                    _page(_("Playground"), "science", "playground"),
                    _screen(_("Merge proposals"), "merge", "strength_merge"),
                    _screen(_("Sleep runs"), "bedtime", "strength_sleeprun"),
                    _screen(_("Kept out"), "gavel", "strength_tombstone"),
                    _screen(_("Tasks"), "task_alt", "strength_task"),
                    _screen(_("Sessions"), "forum", "conversations_session"),
                    _screen(_("Messages"), "chat", "conversations_message"),
                    _screen(_("Summaries"), "summarize", "summaries_summary"),
                    _screen(_("Projects"), "folder_open", "summaries_project"),
                    _screen(_("Project documents"), "description", "summaries_document"),
                    _screen(_("Routing"), "alt_route", "summaries_routingdecision"),
                    _screen(_("Project events"), "timeline", "summaries_projectevent"),
                    _screen(_("Questions"), "contact_support", "conversations_chatturn"),
                    _screen(_("Receipts"), "receipt_long", "conversations_receipt"),
                ],
            },
            {
                "title": _("Agents and actors"),
                "separator": True,
                "items": [
                    _screen(_("Agents"), "smart_toy", "memoryhub_agent"),
                    _screen(_("Actors"), "person_pin", "memoryhub_actor"),
                ],
            },
            {
                "title": _("Administration"),
                "separator": True,
                "collapsible": True,
                "items": [
                    _screen(_("API keys"), "key", "memoryhub_apikey"),
                    _screen(_("Audit trail"), "history", "memoryhub_auditentry"),
                    _screen(_("Embedding spaces"), "scatter_plot", "memoryhub_embeddingspace"),
                    _page(_("Spending"), "bar_chart", "spending"),
                    _screen(_("Usage"), "payments", "memoryhub_ledgerentry"),
                    _screen(_("Token factors"), "tune", "memoryhub_tokenfactors"),
                    _screen(_("Jobs"), "work_history", "memoryhub_job"),
                    _screen(_("Workers"), "engineering", "memoryhub_worker"),
                    _screen(_("Schedules"), "schedule", "memoryhub_schedulestate"),
                    _screen(_("Idempotency records"), "replay", "memoryhub_idempotencyrecord"),
                    _screen(_("Users"), "group", "auth_user"),
                    _screen(_("Groups"), "groups", "auth_group"),
                    _screen(_("Failed logins"), "lock_person", "memoryhub_failedlogin"),
                ],
            },
        ],
    },
}
