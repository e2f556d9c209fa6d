"""Who writes a summary: the language model that is configured, or, where there is none, a choice of sentences."""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from django.conf import settings

from memoryhub.llm.client import ask, counter_in_use
from memoryhub.llm.errors import BadAnswer
from memoryhub.llm.prompts import ForgedFence, prompt
from memoryhub.llm.tokens.counter import TokenCounter, count_raw
from memoryhub.llm.types import ChatMessage, CompletionRequest, Operation
from memoryhub.tenancy.models import Actor
from summaries.domain.extractive import extract
from summaries.domain.policy import SummaryPolicy
from summaries.domain.rolling import Call, Limits, cleaned_answer, fenced_material, length_limits
from summaries.domain.summaries import Generator

FENCE_BYTES: Final = 8
"""Drawn anew for each question, so nobody tries twice; a longer one would only cost tokens."""

SEAMS: Final = 8
"""Tokens to spare for where texts meet, which are counted one by one."""

EMPTY: Final = Call(previous=" ", lines=(), said=())
"""What a question holds besides texts of others."""


@dataclass(frozen=True)
class SummaryText:
    """A text, and the model that wrote it; "" where sentences were chosen."""

    text: str
    model: str = ""


class Summarizer(ABC):
    """Writes one step of a summary."""

    generator: Generator

    def __init__(self, actor: Actor, policy: SummaryPolicy, *, task: str = "summarize") -> None:
        self.actor = actor
        self.language = actor.agent.language
        self.policy = policy
        self.task = task

    @property
    @abstractmethod
    def limits(self) -> Limits:
        """How large one step may be."""

    @abstractmethod
    def count(self, text: str) -> int:
        """Return a text's tokens."""

    @abstractmethod
    def write(self, call: Call, *, deadline_seconds: float, shorter: int = 0) -> SummaryText:
        """Return the text that stands for a step from now on; `shorter` halves its words so often.

        Raises ProviderError.
        """


class ExtractiveSummarizer(Summarizer):
    """Chooses sentences; asks nobody."""

    generator = Generator.EXTRACTIVE

    @property
    def limits(self) -> Limits:
        """How large one step may be."""
        return Limits.of(self.policy)

    def count(self, text: str) -> int:
        """Return a text's tokens, as counted for no model in particular."""
        return count_raw(text)

    def write(self, call: Call, *, deadline_seconds: float, shorter: int = 0) -> SummaryText:
        """Return the sentences that tell most, which are never too long."""
        return SummaryText(
            extract(call, language=self.language, most_tokens=self.limits.output, count=self.count)
        )


class LLMSummarizer(Summarizer):
    """Asks the language model."""

    generator = Generator.LLM

    def __init__(self, actor: Actor, policy: SummaryPolicy, *, task: str = "summarize") -> None:
        super().__init__(actor, policy, task=task)
        self.counter: TokenCounter = counter_in_use(Operation.SUMMARIZE)
        self._limits = self._measured()

    @property
    def limits(self) -> Limits:
        """How large one step may be: the prompt and the fences count as well."""
        return self._limits

    def _measured(self) -> Limits:
        fence = _fence()
        instructions = self._instructions(fence, self.policy.summary_output_limit)
        around = self.count(instructions) + self.count(fenced_material(EMPTY, fence))
        overhead = self.counter.request_overhead + 2 * self.counter.message_overhead
        return Limits.of(self.policy, overhead=around + overhead + SEAMS)

    def count(self, text: str) -> int:
        """Return a text's tokens as the model is expected to count them."""
        return self.counter.count(text)

    def write(self, call: Call, *, deadline_seconds: float, shorter: int = 0) -> SummaryText:
        """Return the model's answer. Raises ProviderError; an answer that says nothing is one.

        Fewer words are asked for within the same limit, so that a model which thinks aloud has room for them.
        """
        fence, text = self._fenced(call)
        request = CompletionRequest(
            operation=Operation.SUMMARIZE,
            messages=(ChatMessage("user", text),),
            max_output_tokens=self.limits.output,
            deadline_seconds=deadline_seconds,
            system=self._instructions(fence, self.limits.output >> shorter),
        )
        completion = ask(request, actor=self.actor)
        answer = cleaned_answer(fence, completion.text)
        if not answer:
            raise BadAnswer("The model answered with nothing that could be kept.", code="empty_answer")
        return SummaryText(answer, completion.model)

    def _instructions(self, fence: str, output: int) -> str:
        return prompt(self.task, self.language, fence=fence, **length_limits(output))

    @staticmethod
    def _fenced(call: Call) -> tuple[str, str]:
        while True:
            fence = _fence()
            try:
                return fence, fenced_material(call, fence)
            except ForgedFence:
                continue  # a text that holds this very fence cannot hold the next one as well


def _fence() -> str:
    return secrets.token_hex(FENCE_BYTES)


def summarizer_for(actor: Actor, policy: SummaryPolicy, *, task: str = "summarize") -> Summarizer:
    """Return who writes for an actor, its agent loaded: as the installation is configured."""
    kind = ExtractiveSummarizer if settings.LLM.provider == "none" else LLMSummarizer
    return kind(actor, policy, task=task)


TOO_LONG: Final = frozenset({"truncated", "too_large"})
RETRIES: Final = 3
"""How often: each time for half as many words, and from the second on of half as many messages."""

LEAST_SECONDS: Final = 5.0
"""What must be left of the time for another question."""


def summarize_call(
    writer: Summarizer, call: Call, *, seconds_left: Callable[[], float]
) -> tuple[Call, SummaryText]:
    """Return a call that was answered whole, and its answer: the one given, or one with fewer of its messages.

    Raises ProviderError; the one about length only where shorter questions do not help either.
    """
    for again in range(RETRIES + 1):
        call = call.half if again > 1 else call
        try:
            return call, writer.write(call, deadline_seconds=seconds_left(), shorter=again)
        except BadAnswer as error:
            if error.code not in TOO_LONG or again == RETRIES or seconds_left() < LEAST_SECONDS:
                raise
    raise AssertionError("the last question either answers or raises")
