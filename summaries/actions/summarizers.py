"""Summarizers: the configured language model, or, where there is none, a choice of the conversation's sentences.

And the digest of several sessions that they write from their summaries, on request and not stored (SPEC U9).
"""

import logging
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from django.conf import settings
from django.utils.translation import gettext_lazy as _

from conversations.actions.writing import writing_for
from conversations.domain.messages import Role
from conversations.domain.policy import WritingPolicy
from conversations.domain.statements.languages import Writing
from memoryhub.auth.access import Tenant
from memoryhub.errors import DomainError
from memoryhub.llm.client import call_seconds, complete, context_window, counter_in_use
from memoryhub.llm.errors import BadAnswer, ProviderTimeout
from memoryhub.llm.prompts import prompt
from memoryhub.llm.tokens import count_raw
from memoryhub.llm.types import ChatMessage, CompletionRequest, Operation
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy, zone_of
from summaries.domain.extractive import extract
from summaries.domain.faults import Fault, fault_of
from summaries.domain.policy import SummaryPolicy
from summaries.domain.summaries import (
    Call,
    Generator,
    Limits,
    SpokenMessage,
    cleaned_answer,
    digest_line,
    fenced_material,
    latest_that_fit,
    length_limits,
    next_call,
)
from summaries.models import Summary

FENCE_DIGITS: Final = 16
"""Random for each question, so that it cannot be guessed; a longer one would only cost tokens.

Digits, because the vocabulary cuts them into threes: every fence costs the same tokens, and the limits are computed
with another fence than the question is asked with. Hexadecimal ones cost from 5 to 15.
"""

LANGUAGE_TOKENS: Final = 90
"""Tokens reserved for another language's prompt, and for the complaint about a summary that cannot be kept."""

JOIN_TOKENS: Final = 8
"""Tokens reserved for the joins of texts, which are counted one by one."""

LENGTH_ERRORS: Final = frozenset({"truncated", "too_large"})
RETRIES: Final = 3
"""Retries of an answer that was cut: each for half as many words, from the second on of half as many messages."""

MIN_CALL_SECONDS: Final = 5.0
"""Time that another question to the model needs."""

log = logging.getLogger(__name__)


class FaultyAnswer(BadAnswer):
    """The model wrote something that is no summary of its material."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(f"The model's summary cannot be kept ({fault}).", code="faulty_summary")
        self.fault = fault


@dataclass(frozen=True)
class SummaryText:
    """Text, and the model that wrote it; "" where sentences were chosen."""

    text: str
    model: str = ""


class Summarizer(ABC):
    """Writes one call of a rolling summary; `limits` is how large a call may be."""

    generator: Generator
    limits: Limits

    def __init__(self, actor: Actor, policy: SummaryPolicy, *, task: str = "summarize") -> None:
        self.actor = actor
        self.policy = policy
        self.task = task
        self.limits = Limits.of(policy)

    @abstractmethod
    def count(self, text: str) -> int: ...

    @abstractmethod
    def write(
        self, call: Call, *, deadline_seconds: float, shorter: int = 0, fault: Fault | None = None
    ) -> SummaryText:
        """Return the summary after a call. Raises ProviderError.

        `shorter` halves its words so often, `fault` is what was wrong with the answer before.
        """

    def choose(self, call: Call) -> SummaryText:
        """Return sentences of a call, which are never too long, without a model."""
        language = self.writing(call).prompt
        return SummaryText(extract(call, language=language, most_tokens=self.limits.output, count=self.count))

    def writing(self, call: Call) -> Writing:
        """Return the language of a summary: by default that of the people's messages."""
        spoken = [message.text for message in call.messages if message.role != Role.ASSISTANT]
        return writing_for(self.actor, spoken or [call.previous], is_one=True)


class ExtractiveSummarizer(Summarizer):
    """Chooses sentences."""

    generator = Generator.EXTRACTIVE

    def count(self, text: str) -> int:
        return count_raw(text)

    def write(
        self, call: Call, *, deadline_seconds: float, shorter: int = 0, fault: Fault | None = None
    ) -> SummaryText:
        return self.choose(call)


class LLMSummarizer(Summarizer):
    """Asks the language model; the prompt and the fences count towards the limits."""

    generator = Generator.LLM

    def __init__(
        self, actor: Actor, policy: SummaryPolicy, *, task: str = "summarize", instructions: str | None = None
    ) -> None:
        """Use the operator's instructions, or those given to be tried in their place."""
        super().__init__(actor, policy, task=task)
        policy_instructions = effective_policy(WritingPolicy, actor.agent, actor).summary_instructions
        self.own_instructions = policy_instructions if instructions is None else instructions
        self.counter = counter_in_use(Operation.SUMMARIZE)
        fence = _new_fence()
        longest = writing_for(actor, [], is_one=True)
        prompt_tokens = self.count(self._instructions(policy.summary_output_limit, longest)) + LANGUAGE_TOKENS
        fence_tokens = self.count(fenced_material(Call(previous=" ", lines=(), messages=()), fence))
        request_tokens = self.counter.factors.per_request + 2 * self.counter.factors.per_message
        overhead = prompt_tokens + fence_tokens + request_tokens + JOIN_TOKENS
        self.limits = Limits.of(policy, overhead=overhead, window=context_window(Operation.SUMMARIZE))

    def count(self, text: str) -> int:
        return self.counter.count(text)

    def write(
        self, call: Call, *, deadline_seconds: float, shorter: int = 0, fault: Fault | None = None
    ) -> SummaryText:
        """Return the model's answer. Raises ProviderError, also for an empty answer, and FaultyAnswer.

        Fewer words are asked for within the same limit, so that a model which thinks aloud has room for them.
        """
        fence, writing = _new_fence(), self.writing(call)
        limit = self.limits.output >> shorter
        complaint = [prompt("summarize_again", writing.prompt, written=writing.phrase)] if fault else []
        request = CompletionRequest(
            operation=Operation.SUMMARIZE,
            messages=(ChatMessage("user", fenced_material(call, fence)),),
            max_output_tokens=self.limits.output,
            deadline_seconds=deadline_seconds,
            system="\n\n".join([self._instructions(limit, writing), *complaint]),
        )
        completion = complete(request, actor=self.actor)
        answer = cleaned_answer(fence, completion.text)
        if not answer:
            raise BadAnswer("The model answered with nothing that could be kept.", code="empty_answer")
        if found := fault_of(answer, call, most_tokens=limit, written=writing):
            raise FaultyAnswer(found)
        return SummaryText(answer, completion.model)

    def _instructions(self, output_tokens: int, writing: Writing) -> str:
        words = prompt(self.task, writing.prompt, written=writing.phrase, **length_limits(output_tokens))
        return "\n\n".join(filter(None, [words, self.own_instructions.strip()]))


def _new_fence() -> str:
    return f"{secrets.randbelow(10**FENCE_DIGITS):0{FENCE_DIGITS}}"


def summarizer_for(actor: Actor, policy: SummaryPolicy, *, task: str = "summarize") -> Summarizer:
    """Return the summarizer that is configured, for an actor with its agent loaded."""
    kind = ExtractiveSummarizer if settings.LLM.provider == "none" else LLMSummarizer
    return kind(actor, policy, task=task)


def summarize_call(
    summarizer: Summarizer, call: Call, *, seconds_left: Callable[[], float]
) -> tuple[Call, SummaryText]:
    """Return a call with its complete answer: the given call, or one with fewer of its messages.

    After a truncated answer, a shorter one is requested, since the same request would be truncated again. What is no
    summary is asked for once more, and then replaced by sentences of the conversation. Raises ProviderError.
    """
    retry, fault = 0, None
    while True:
        try:
            return call, summarizer.write(call, deadline_seconds=seconds_left(), shorter=retry, fault=fault)
        except FaultyAnswer as error:
            if fault or seconds_left() < MIN_CALL_SECONDS:
                log.warning("the model's summary cannot be kept; sentences are chosen", extra={"fault": error.fault})
                return call, summarizer.choose(call)
            fault = error.fault
            continue
        except BadAnswer as error:
            if error.code not in LENGTH_ERRORS or retry == RETRIES or seconds_left() < MIN_CALL_SECONDS:
                raise
        retry += 1
        call = call.half if retry > 1 else call


MAX_SESSIONS: Final = 100

MAX_CALLS: Final = 8
"""About as many model calls as the deadline allows."""

DEADLINE_SECONDS: Final = 60.0
"""The client waits for the answer."""


class NoSummaries(DomainError):
    """No trusted summary of the actor lies in the time window or has the project."""

    code = "no_summaries"


@dataclass(frozen=True, kw_only=True)
class Digest:
    """One text about several sessions; `left_out` is how many of them did not fit, the oldest."""

    text: str = field(repr=False)
    generator: Generator
    model: str
    session_ids: list[UUID]
    left_out: int
    start_time: datetime
    end_time: datetime


def digest(
    *, tenant: Tenant, since: datetime | None = None, until: datetime | None = None, project: str | None = None
) -> Digest:
    """Return a digest of trusted summaries. Network. Raises NoSummaries, NoRoom, ProviderError."""
    rows = Summary.objects.of(tenant.actor_id).trusted()
    if since is not None:
        rows = rows.filter(end_time__gte=since)
    if until is not None:
        rows = rows.filter(start_time__lte=until)
    if project is not None:
        rows = rows.filter(session__metadata__project=project)
    summaries = list(rows.with_end_offset()[:MAX_SESSIONS])[::-1]
    if tenant.actor is None or not summaries:
        raise NoSummaries(_("There are no summaries to make a digest of."))
    policy = effective_policy(SummaryPolicy, tenant.agent, tenant.actor)
    summarizer = summarizer_for(tenant.actor, policy, task="digest")
    # The extractive summarizer shows authors: a digest passes the day instead.
    zone = zone_of(tenant.agent, tenant.actor)
    ends = [summary.local_end(zone) for summary in summaries]
    texts = [
        SpokenMessage(index, "", f"{at:%Y-%m-%d}", summary.text, at)
        for index, (summary, at) in enumerate(zip(summaries, ends, strict=True))
    ]
    latest = latest_that_fit(MAX_CALLS, texts, summarizer.limits, summarizer.count)
    included = summaries[-len(latest) :]
    result = _summarize_all(latest, summarizer)
    return Digest(
        text=result.text,
        generator=summarizer.generator if result.model else Generator.EXTRACTIVE,
        model=result.model,
        session_ids=[summary.session_id for summary in included],
        left_out=rows.count() - len(latest),
        start_time=min(summary.start_time for summary in included),
        end_time=max(summary.end_time for summary in included),
    )


def _summarize_all(pending: Sequence[SpokenMessage], summarizer: Summarizer) -> SummaryText:
    """Return one text of summaries, each in exactly one call with the previous digest. Raises ProviderError."""
    ends_at = time.monotonic() + call_seconds(Operation.SUMMARIZE, DEADLINE_SECONDS)
    result = SummaryText("")
    while pending:
        if ends_at - time.monotonic() < MIN_CALL_SECONDS:
            raise ProviderTimeout("The model was too slow for so many sessions.", code="timeout")
        call = next_call(result.text, pending, summarizer.limits, summarizer.count, line_of=digest_line)
        call, result = summarize_call(summarizer, call, seconds_left=lambda: ends_at - time.monotonic())
        pending = pending[len(call.messages) :]
    return result
