"""The admin's frame: title, sidebar and assets, as django-unfold reads them from the settings."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

from django.apps import apps
from django.contrib import admin
from django.http.response import HttpResponseBase
from django.templatetags.static import static
from django.urls import NoReverseMatch, reverse, reverse_lazy
from django.utils.functional import lazy
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

# A data URL: browsers request no file.
FAVICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'%3E"
    "%3Ccircle cx='12' cy='12' r='10' fill='%237c3aed'/%3E%3C/svg%3E"
)


def in_brackets(text: object) -> str:
    """Return a remark in brackets, to follow the words that it is about; Japanese brackets bring their own space."""
    return gettext(" ({})").format(text)


Screen = tuple[Any, str]
"""A page's title, and its name: a model's list (`app_model`), or a page that belongs to no single model."""


@dataclass(frozen=True)
class Page:
    """A page below /admin/: address, URL name, view, and the permissions it takes, all of them."""

    address: str
    name: str
    view: Callable[..., HttpResponseBase]
    needs: tuple[str, ...]


PAGES: Final[list[Page]] = []
"""The pages of all apps, which register theirs when they are ready."""


def screens_by_name() -> dict[str, Any]:
    models = filter(admin.site.is_registered, apps.get_models())
    return {f"{model._meta.app_label}_{model._meta.model_name}": admin.site.get_model_admin(model) for model in models}


def needs_of(name: str) -> tuple[str, ...]:
    return {page.name: page.needs for page in PAGES}[name]


def may_open(name: str, request: Any) -> bool:
    """Return whether a person may open a screen: may see the rows behind a list, or holds what a page needs."""
    app, _sep, model = name.partition("_")
    needs = next((page.needs for page in PAGES if page.name == name), (f"{app}.view_{model}",))
    return bool(request.user.has_perms(needs))


@cache  # unfold compares the tabs' addresses a thousand times for each page
def address_of(name: str) -> str:
    try:
        return reverse(name)
    except NoReverseMatch:
        return reverse(f"admin:{name}_changelist")


def _area(icon: str, *screens: Screen, title: Any = None, **options: Any) -> dict[str, Any]:
    """Return a sidebar entry with the screens that are its tabs; it opens the first that the person may see."""

    def first(request: Any) -> str:
        return next((address_of(name) for _title, name in screens if may_open(name, request)), "")

    def is_active(request: Any) -> bool:
        return any(request.path.startswith(address_of(name)) for _title, name in screens)

    return {
        "title": screens[0][0] if title is None else title,
        "icon": icon,
        "link": first,
        "active": is_active,
        "permission": lambda request: bool(first(request)),
        "screens": screens,
        **options,
    }


def _tabs(area: dict[str, Any]) -> Iterator[dict[str, Any]]:
    screens = area["screens"]
    if len(screens) > 1:
        items = [
            {"title": title, "link": lazy(address_of, str)(name), "permission": partial(may_open, name)}
            for title, name in screens
        ]
        models = [name.replace("_", ".", 1) for _title, name in screens if "_" in name]
        for name in (name for _title, name in screens if "_" not in name):
            yield {"page": name, "items": items}
        yield {"models": models, "items": items}


AREAS = [
    _area("newspaper", (_("News"), "news")),
    _area("rule", (_("Review"), "review"), badge="strength.admin.review.review_badge", badge_variant="primary"),
    _area("neurology", (_("Memories"), "strength_memory"), (_("Profiles"), "strength_profile")),
    _area(
        "forum",
        (_("Conversations"), "conversations_session"),
        (_("Messages"), "conversations_message"),
        (_("Summaries"), "summaries_summary"),
        (_("Questions"), "conversations_chatturn"),
        (_("Receipts"), "conversations_receipt"),
    ),
    _area(
        "folder_open",
        (_("Projects"), "summaries_project"),
        (_("Documents"), "summaries_document"),
        (_("Routing"), "summaries_routingdecision"),
        (_("Events"), "summaries_projectevent"),
    ),
    _area(
        "bedtime",
        (_("Calendar"), "sleep"),
        (_("Sleep runs"), "strength_sleeprun"),
        (_("Merge proposals"), "strength_merge"),
        (_("Tasks"), "strength_task"),
        title=_("Sleep"),
    ),
    _area("chat", (_("Talk"), "talk")),
    _area("science", (_("Playground"), "playground")),
    _area("fact_check", (_("Expectations"), "strength_expectation")),
    _area("gavel", (_("Blocked texts"), "strength_tombstone"), (_("Rules"), "strength_reviewrule")),
    _area("smart_toy", (_("Agents"), "memoryhub_agent"), (_("Actors"), "memoryhub_actor")),
]
"""Curators' areas: one sidebar entry each, with further screens as tabs."""

ADMINISTRATION = [
    _area("key", (_("API keys"), "memoryhub_apikey"), (_("Connected clients"), "memoryhub_oauthgrant")),
    _area(
        "group",
        (_("Accounts"), "auth_user"),
        (_("Groups"), "auth_group"),
        (_("Invitations"), "memoryhub_invitation"),
        (_("Failed logins"), "memoryhub_failedlogin"),
    ),
    _area("upload_file", (_("Imports"), "importer")),
    _area("webhook", (_("Webhooks"), "webhooks_endpoint")),
    _area("history", (_("Audit trail"), "memoryhub_auditentry")),
    _area(
        "payments",
        (_("Spending"), "spending"),
        (_("Usage"), "memoryhub_ledgerentry"),
        (_("Token factors"), "memoryhub_tokenfactors"),
    ),
    _area(
        "work_history",
        (_("Jobs"), "memoryhub_job"),
        (_("Workers"), "memoryhub_worker"),
        (_("Schedules"), "memoryhub_schedulestate"),
        (_("Embedding spaces"), "memoryhub_embeddingspace"),
        (_("Idempotency records"), "memoryhub_idempotencyrecord"),
    ),
]


SCREENS: dict[str, Screen] = {
    screen[1]: (screen[0], area["icon"]) for area in (*AREAS, *ADMINISTRATION) for screen in area["screens"]
}
"""Title and icon of every screen, by its name; lists, breadcrumbs and the palette call it the same."""

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
            {"title": _("Sign-in"), "link": reverse_lazy("own_sign_in")},
            {"title": _("Sign out everywhere else"), "link": reverse_lazy("own_sessions")},
            {"title": _("Change password"), "link": reverse_lazy("admin:password_change")},
        ]
    },
    "STYLES": [lambda request: static("memoryhub/admin.css"), lambda request: static("memoryhub/phone.css")],
    "SCRIPTS": [lambda request: static("memoryhub/labels.js")],
    "DASHBOARD_CALLBACK": "memoryhub.admin.dashboard.dashboard_context",
    "SIDEBAR": {
        "show_search": True,
        "command_search": True,
        "navigation": [
            {"items": AREAS},
            {"title": _("Administration"), "separator": True, "collapsible": True, "items": ADMINISTRATION},
        ],
    },
    "TABS": [tabs for area in (*AREAS, *ADMINISTRATION) for tabs in _tabs(area)],
}
