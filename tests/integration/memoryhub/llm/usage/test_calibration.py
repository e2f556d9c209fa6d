"""A provider that counts otherwise is followed: never below it before, within 10 % and from above after (SPEC A7, X12)."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import InterfaceError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from conversations.actions.context import ContextRequest, assemble_context
from memoryhub.auth.access import tenant_for_reading
from memoryhub.auth.principals import command
from memoryhub.embeddings import registry
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import enqueue
from memoryhub.llm.client import complete, counter_in_use
from memoryhub.llm.config import LLMConfig
from memoryhub.llm.tokens import factors_for, raw_counts
from memoryhub.llm.types import ChatMessage, CompletionRequest, Operation
from memoryhub.llm.usage.calibration import CalibratedFactors, calibrate, calibrated, prior_of
from memoryhub.llm.usage.models import LedgerEntry, TokenFactors
from memoryhub.tenancy.models import Actor
from tests.conftest import run_jobs
from tests.fakes.llm_server import LLMServer

NOW = datetime(2026, 3, 1, tzinfo=UTC)

ENGLISH = (
    "We moved to a small house near the harbour last spring, and I still walk to work along the river. ",
    "The recipe asks for two cups of flour, a pinch of salt and more patience than I usually have. ",
    "My sister teaches chemistry; she says that the best experiments begin with a mistake. ",
    "Could you remind me tomorrow to call the dentist and to pick up the parcel at the station? ",
)
JAPANESE = (
    "去年の春に港の近くの小さな家へ引っ越して、今でも川沿いを歩いて仕事に通っています。",
    "抹茶アイスが好きですが、甘すぎるものはあまり食べません。京都のお店をよく覚えています。",
    "妹は高校で化学を教えていて、良い実験は失敗から始まるといつも言っています。",
    "明日、歯医者に電話することと、駅で荷物を受け取ることを思い出させてください。",
)


def counted(text: str) -> int:
    """Count as a vendor might: 1.37 times ours in Japanese, 1.1 times in everything else."""
    raw = raw_counts(text).by_script
    return round(raw["japanese"] * 1.37 + sum(raw[script] for script in ("latin", "code", "other")) * 1.1)


def texts(sentences: Sequence[str], number: int) -> str:
    """Return one of twenty texts, of a sentence to a page."""
    return "".join(sentences[(number + step) % len(sentences)] for step in range(1 + number * 2))


KINDS: dict[str, Callable[[int], str]] = {
    "english": lambda number: texts(ENGLISH, number),
    "japanese": lambda number: texts(JAPANESE, number),
    "mixed": lambda number: texts(ENGLISH, number % 7) + "\n" + texts(JAPANESE, (number * 3) % 11),
}


SYSTEM = "Answer in the language of the question. 質問の言語で答えてください。"


def say(actor: Actor, text: str, *, system: str = SYSTEM) -> LedgerEntry:
    """Ask the model, and return how the call stands in the ledger."""
    request = CompletionRequest(
        operation=Operation.CHAT,
        messages=(ChatMessage("user", text),),
        max_output_tokens=50,
        deadline_seconds=60.0,
        system=system,
    )
    complete(request, actor=actor)
    return LedgerEntry.objects.order_by("-id").first()  # type: ignore[return-value]


def away(entry: LedgerEntry) -> float:
    assert entry.input_tokens
    return entry.estimated_tokens / entry.input_tokens - 1


@pytest.mark.slow
def test_a_vendor_is_followed_within_ten_percent_and_never_undercounted(llm: LLMServer, actor: Actor) -> None:
    llm.count = counted
    before = [away(say(actor, text(number))) for text in KINDS.values() for number in range(20)]
    assert min(before) >= 0, "the table's factors may never count too low"
    assert max(before) > 0.10, "nothing to learn would prove nothing"
    assert run_jobs() == 1
    calibrated.forget()
    after = {kind: [away(say(actor, text(number + 1))) for number in range(20)] for kind, text in KINDS.items()}
    for kind, errors in after.items():
        assert min(errors) >= 0 and max(errors) <= 0.10, (kind, errors)
    fitted = TokenFactors.objects.get()
    assert fitted.error_after_p95 <= 0.10 < fitted.error_before_p95
    assert fitted.samples == 60


@pytest.mark.parametrize("kind", KINDS)
def test_twenty_answers_are_enough_for_more_of_the_same(llm: LLMServer, actor: Actor, kind: str) -> None:
    llm.count = counted
    for number in range(20):
        assert away(say(actor, KINDS[kind](number))) >= 0
    run_jobs()
    calibrated.forget()
    errors = [away(say(actor, KINDS[kind](number + 1))) for number in range(20)]
    assert min(errors) >= 0 and max(errors) <= 0.10


def test_twenty_answers_ask_for_one_fit_and_twenty_more_for_the_next(llm: LLMServer, actor: Actor) -> None:
    waiting = []
    for number in range(25):
        say(actor, f"tea number {number}")
        waiting.append(Job.objects.filter(kind="calibrate_tokens").count())
    assert waiting == [0] * 19 + [1] * 6
    assert run_jobs() == 1
    first = TokenFactors.objects.get().fitted_at
    for number in range(19):
        say(actor, f"coffee number {number}")
    assert run_jobs() == 0
    say(actor, "the twentieth")
    assert run_jobs() == 1
    assert TokenFactors.objects.get().fitted_at > first


def test_few_answers_teach_nothing_yet(llm: LLMServer, actor: Actor) -> None:
    for number in range(19):
        entry = say(actor, f"tea number {number}")
    assert calibrate(entry.provider, entry.model, now=NOW) is None
    assert not TokenFactors.objects.exists()


def test_the_weekly_schedule_fits_every_model(actor: Actor) -> None:
    for model in ("claude-a", "claude-b"):
        LedgerEntry.objects.bulk_create(
            LedgerEntry(
                agent_id="kana", operation="chat", provider="anthropic", model=model, latency_ms=1, is_sample=True,
                input_tokens=12 * number, output_tokens=1, estimated_tokens=15 * number, raw_latin=10 * number,
                messages=1, created_at=timezone.now() - timedelta(hours=number),
            )
            for number in range(1, 31)
        )  # fmt: skip
    enqueue("calibrate_tokens")
    assert run_jobs() == 1
    assert [row.samples for row in TokenFactors.objects.all()] == [30, 30]


def fitted(provider: str = "anthropic", model: str = "claude-sonnet-5-5", **figures: Any) -> TokenFactors:
    values = {
        "latin": 1.1, "japanese": 1.4, "code": 1.2, "other": 1.5, "per_message": 2, "per_request": 3, "samples": 20,
        "error_before_median": 0.3, "error_before_p95": 0.4, "error_after_median": 0.02, "error_after_p95": 0.06,
        "fitted_at": NOW, **figures,
    }  # fmt: skip
    return TokenFactors.objects.create(provider=provider, model=model, **values)


def test_readers_ask_once_a_minute() -> None:
    """A clock of the test's own: the look-up knows no other."""
    now = [0.0]
    kept = CalibratedFactors(clock=lambda: now[0])

    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            kept.of("anthropic", "claude-x")
        return len(captured)

    assert [statements(), statements()] == [1, 0]
    now[0] = 59.9
    assert statements() == 0
    now[0] = 60.0
    assert statements() == 1


test_readers_ask_once_a_minute = pytest.mark.django_db(test_readers_ask_once_a_minute)


def test_contexts_are_counted_with_fitted_factors(llm: LLMServer, actor: Actor) -> None:
    tenant = tenant_for_reading(command("test"), "kana", "hiroki")
    request = ContextRequest(message="Where did we walk along the river? " * 40, options={})

    def tokens() -> int:
        found = assemble_context(tenant=tenant, request=request, by=command("test"), now=NOW)
        return int(found.metadata["total_tokens"])

    before = tokens()
    assert counter_in_use().factors == factors_for(None), "a server of others, and no model chosen"
    fitted(latin=3.0)
    calibrated.forget()
    assert counter_in_use().factors.latin == 3.0
    assert tokens() == pytest.approx(2 * before, rel=0.05)


def test_without_a_model_the_most_careful_factors_hold(db: None) -> None:
    fitted()
    assert counter_in_use().factors == factors_for(None)


@pytest.mark.django_db
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_fit_begins_with_the_factors_in_use_before_it(
    llm_server: LLMServer, settings: Any, actor: Actor, provider: str
) -> None:
    """Twenty English answers of a server of others say nothing about Japanese: there nothing may fall."""
    registry.reset()
    settings.LLM = LLMConfig(provider, base_url=llm_server.base_url, api_key=llm_server.key)
    before = counter_in_use().factors
    assert before == factors_for(None)
    for number in range(20):
        say(actor, KINDS["english"](number), system="Answer briefly.")
    run_jobs()
    calibrated.forget()
    after = counter_in_use().factors
    registry.reset()
    assert after.latin < before.latin
    assert after.japanese >= before.japanese and after.other >= before.other


@pytest.mark.parametrize(
    ("config", "prior"),
    [
        (LLMConfig("openai"), "gpt-5.6-sol"),
        (LLMConfig("openai", "gpt-5.6-sol", base_url="http://a.test"), "gpt-5.6-sol"),
        (LLMConfig("openai", models={Operation.CHAT: "gpt-5.6-sol"}, base_url="http://a.test"), "gpt-5.6-sol"),
        (LLMConfig("openai", base_url="http://a.test"), None),
        (LLMConfig("openai", "other", base_url="http://a.test"), None),
    ],
)
def test_a_vendors_name_says_nothing_of_a_server_of_others_unless_it_was_chosen(
    settings: Any, config: LLMConfig, prior: str | None
) -> None:
    settings.LLM = config
    assert prior_of("gpt-5.6-sol") == factors_for(prior)


def test_a_broken_connection_leaves_the_factors_that_were_known(db: None) -> None:
    kept = CalibratedFactors(clock=iter([0.0, 0.0, 100.0, 100.0]).__next__)
    fitted(model="claude-x")
    known = kept.of("anthropic", "claude-x")

    def broken(*rest: Any) -> Any:
        raise InterfaceError("connection already closed")

    with connection.execute_wrapper(broken):
        assert kept.of("anthropic", "claude-x") == known is not None


def test_the_admin_shows_the_error(actor: Actor) -> None:
    row = fitted()
    browser = Client()
    browser.force_login(User.objects.create_superuser("boss", password="a long password"))
    listed = browser.get(reverse("admin:memoryhub_tokenfactors_changelist")).content.decode()
    assert "30.0%, 40.0%" in listed and "2.0%, 6.0%" in listed
    assert browser.get(reverse("admin:memoryhub_tokenfactors_change", args=[row.pk])).status_code == 200
