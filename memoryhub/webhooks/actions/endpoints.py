"""Create, rotate, enable and delete endpoints, and order tests and repeated deliveries.

All of it is for trusted keys with the scope `admin` that are bound to no user; an endpoint of all agents is for keys of
all agents.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Q
from prometheus_client.core import GaugeMetricFamily

from memoryhub.auth import audit
from memoryhub.auth.access import UnknownRow
from memoryhub.auth.orders import order_of
from memoryhub.auth.principals import Forbidden, Principal
from memoryhub.errors import DomainError, _, format_lazy
from memoryhub.jobs.queue import enqueue
from memoryhub.jobs.status import DatabaseCollector
from memoryhub.tenancy.models import Agent
from memoryhub.webhooks.actions.delivery import SEND_KIND, TEST_PLACE
from memoryhub.webhooks.actions.feed import event_at, last_place
from memoryhub.webhooks.actions.secrets import new_secret, sealed
from memoryhub.webhooks.domain.addresses import check_url
from memoryhub.webhooks.models import ACTIVE, DISABLED, Delivery, Endpoint

OLD_SECRET_FOR: Final = timedelta(days=1)
MAX_ENDPOINTS: Final = 100
"""Of an agent, or of all agents: each takes its own job."""


class TooManyEndpoints(DomainError):
    code = "too_many_webhooks"


class EventGone(DomainError):
    """The event of a delivery is not kept any more."""

    code = "event_gone"


def _families(now: datetime | None) -> Iterator[GaugeMetricFamily]:
    states = GaugeMetricFamily("memoryhub_webhooks", "Webhooks by state.", labels=["state"])
    if now is not None:
        counts = Endpoint.objects.aggregate(
            active=Count("pk", filter=Q(state=ACTIVE, failures=0)),
            failing=Count("pk", filter=Q(state=ACTIVE, failures__gt=0)),
            disabled=Count("pk", filter=Q(state=DISABLED)),
        )
        for state, count in counts.items():
            states.add_metric([state], count)
    yield states


STATES = DatabaseCollector(_families)


def check_may_manage(by: Principal) -> None:
    """Raise Forbidden for a key that is bound to a user or untrusted: events are those of all users."""
    if by.user_id is not None:
        raise Forbidden(_("A key that is bound to a user may not manage webhooks, which get events of all users."))
    if not by.is_trusted:
        raise Forbidden(_("An untrusted key may not manage webhooks."))


def endpoint_of(by: Principal, endpoint_id: UUID) -> Endpoint:
    """Return an endpoint that a principal may manage. Raises Forbidden, UnknownRow."""
    check_may_manage(by)
    endpoint = Endpoint.objects.visible_to(by).filter(pk=endpoint_id).first()
    if endpoint is None:
        raise UnknownRow(format_lazy(_("No webhook {id}."), id=endpoint_id))
    return endpoint


@transaction.atomic
def create_endpoint(
    *, agent_id: str | None, url: str, kinds: Sequence[str] = (), with_texts: bool = False, by: Principal, now: datetime
) -> tuple[Endpoint, str]:
    """Create an endpoint that gets the events from now on; return it with its secret, which is shown once.

    Raises Forbidden, UnknownRow, AddressRefused, TooManyEndpoints.
    """
    check_may_manage(by)
    if agent_id is None and not by.may_touch_all_agents:
        raise Forbidden(_("This key is for some agents: name one of them."))
    if agent_id is not None:
        by.check_agent(agent_id)
        if not Agent.objects.filter(agent_id=agent_id).exists():
            raise UnknownRow(format_lazy(_("No agent {agent}."), agent=repr(agent_id)))
    check_url(url, networks=settings.WEBHOOK_NETWORKS)
    if Endpoint.objects.filter(agent_id=agent_id).count() >= MAX_ENDPOINTS:
        raise TooManyEndpoints(format_lazy(_("There are {count} webhooks; delete one first."), count=MAX_ENDPOINTS))
    secret = new_secret()
    endpoint = Endpoint.objects.create(
        agent_id=agent_id, url=url, kinds=sorted(set(kinds)), with_texts=with_texts, place=last_place(),
        secret=sealed(secret), created_at=now,
    )  # fmt: skip
    _note(endpoint, "create", by, now)
    return endpoint, secret


@transaction.atomic
def rotate_secret(*, endpoint: Endpoint, by: Principal, now: datetime) -> str:
    """Give an endpoint another secret and return it, once; the former one signs as well for a day."""
    check_may_manage(by)
    locked = _locked(endpoint)
    secret = new_secret()
    locked.old_secret, locked.rotating_until = locked.secret, now + OLD_SECRET_FOR
    locked.secret = sealed(secret)
    locked.save(update_fields=["secret", "old_secret", "rotating_until"])
    _note(endpoint, "rotate", by, now)
    return secret


@transaction.atomic
def enable_endpoint(*, endpoint: Endpoint, by: Principal, now: datetime) -> Endpoint:
    """Continue with the deliveries of an endpoint at once, where they stopped."""
    check_may_manage(by)
    locked = _locked(endpoint)
    locked.state, locked.failures, locked.failing_since, locked.retry_at = ACTIVE, 0, None, None
    locked.save(update_fields=["state", "failures", "failing_since", "retry_at"])
    _note(endpoint, "resume", by, now)
    return locked


@transaction.atomic
def delete_endpoint(*, endpoint: Endpoint, by: Principal, now: datetime) -> None:
    check_may_manage(by)
    _note(endpoint, "delete", by, now)
    endpoint.delete()


def order_test(*, endpoint: Endpoint, by: Principal, now: datetime) -> UUID:
    """Enqueue a test event; its answer is in the endpoint's deliveries."""
    return _order(endpoint, TEST_PLACE, by, now)


def order_again(*, delivery: Delivery, by: Principal, now: datetime) -> UUID:
    """Enqueue the event of a delivery once more, with the same `webhook-id`. Raises EventGone."""
    endpoint = delivery.endpoint
    if delivery.place != TEST_PLACE and event_at(delivery.place, agent_id=endpoint.agent_id) is None:
        raise EventGone(_("The event is not kept any more, so it cannot be sent again."))
    return _order(endpoint, delivery.place, by, now)


@transaction.atomic
def _order(endpoint: Endpoint, place: int, by: Principal, now: datetime) -> UUID:
    check_may_manage(by)
    _note(endpoint, "order", by, now)
    return enqueue(
        SEND_KIND,
        key=f"{endpoint.pk}:{place}:{by.pk}",
        payload={"endpoint_id": str(endpoint.pk), "place": place},
        order=order_of(by),
    )


def _locked(endpoint: Endpoint) -> Endpoint:
    locked = Endpoint.objects.select_for_update().filter(pk=endpoint.pk).first()
    if locked is None:
        raise UnknownRow(_("The webhook was deleted at the same time."))
    return locked


def _note(endpoint: Endpoint, verb: str, by: Principal, now: datetime) -> None:
    agent_id = endpoint.agent_id or ""
    audit.record_each(by=by, verb=verb, object_kind="endpoint", object_ids=[endpoint.pk], agent_id=agent_id, now=now)
