"""A router's prediction, its consequences, and how a model answers (SPEC P3, P4). Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, Final

from memoryhub.errors import gettext_noop
from memoryhub.llm.types import object_schema
from summaries.domain.projects import free_name, is_name, propose_name


class Confidence(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Action(StrEnum):
    ROUTE = "route"
    DISCLOSE = "route_and_disclose"
    ASK = "ask"
    PROPOSE = "propose_new"


CONSEQUENCES: Final[Mapping[Confidence, Action]] = {Confidence.HIGH: Action.ROUTE, Confidence.MEDIUM: Action.DISCLOSE}
"""Actions where a project was found; where none was, or at low confidence, the user decides."""

SAME_CORRECTED: Final = gettext_noop("The same message was corrected before.")
LIKE_CORRECTED: Final = gettext_noop("A similar message was corrected before.")
WORDS_OF: Final = gettext_noop("Its words match {project}.")
WORDS_OF_TWO: Final = gettext_noop("Its words match {project} and {other} equally.")
SOME_WORDS_OF: Final = gettext_noop("Some of its words match {project}.")
SPEAKS_OF: Final = gettext_noop("Its topic matches {project}.")
SESSION_OF: Final = gettext_noop("Its session is about {project}.")
WORDS_OF_NONE: Final = gettext_noop("Its words match no project.")
BEGINS: Final = gettext_noop("It seems to start a topic without a project.")
MODEL_AWAY: Final = gettext_noop("The language model was unavailable ({code}), so words decided. {reason}")
REASONS: Final = (
    SAME_CORRECTED, LIKE_CORRECTED, WORDS_OF_NONE, WORDS_OF_TWO, SOME_WORDS_OF, WORDS_OF, SPEAKS_OF, SESSION_OF, BEGINS,
    MODEL_AWAY,
)  # fmt: skip
"""Reasons of the word-based router: stored in English, translated on pages."""

MAX_REASON_LENGTH: Final = 500


@dataclass(frozen=True)
class Prediction:
    """Output of a router: a project's name or None, a name for a new one, confidence and reason.

    `candidates` are projects to offer where none was found, the likeliest first.
    """

    project: str | None
    proposed_name: str | None
    confidence: Confidence
    reason: str = field(default="", repr=False)
    candidates: tuple[str, ...] = ()


def action_of(prediction: Prediction) -> Action:
    if prediction.project is not None and prediction.confidence in CONSEQUENCES:
        return CONSEQUENCES[prediction.confidence]
    return Action.PROPOSE if prediction.proposed_name else Action.ASK


@cache
def _pattern_of(sentence: str) -> re.Pattern[str]:
    """Return a pattern for a sentence of ours; what is named has no blanks, apart from another reason at the end."""
    pattern = re.escape(sentence).replace(r"\{reason\}", "(?P<reason>.+)")
    return re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>\\S+)", pattern), re.DOTALL)


def reason_parts(reason: str) -> tuple[str, dict[str, str]] | None:
    """Return which of our sentences a reason is, and what is named in it; None for a model's own words."""
    for sentence in REASONS:
        if found := _pattern_of(sentence).fullmatch(reason):
            return sentence, found.groupdict()
    return None


@dataclass(frozen=True)
class PastDecision:
    project: str | None
    confidence: Confidence
    action: Action
    corrected: str | None = None


def session_project(decided: Iterable[PastDecision]) -> str | None:
    """Return the project that a session is about from its decisions, latest first; None where that is open.

    The latest correction or decision of high confidence counts; without one a guess that the user was told of and let
    stand. Not where different projects were guessed, or a new one was proposed, since.
    """
    guessed: set[str] = set()
    for each in decided:
        sure = each.corrected or (each.project if each.confidence is Confidence.HIGH else None)
        if sure:
            guessed.add(sure)
            break
        if each.action is Action.PROPOSE:
            break
        if each.project:
            guessed.add(each.project)
    return guessed.pop() if len(guessed) == 1 else None


def usable_prediction(prediction: Prediction, projects: Sequence[str], *, current: str | None = None) -> Prediction:
    """Return a model's prediction with usable names: an unknown project becomes None, a proposal a free name.

    At low confidence there is no project, except `current`, the one that the session is about already.
    """
    known = prediction.project if prediction.project in projects else None
    if known is not None and known == current and prediction.confidence is Confidence.LOW:
        return Prediction(known, None, Confidence.MEDIUM, prediction.reason[:MAX_REASON_LENGTH])
    if known is not None and prediction.confidence is not Confidence.LOW:
        return Prediction(known, None, prediction.confidence, prediction.reason[:MAX_REASON_LENGTH])
    wanted = prediction.proposed_name or (prediction.project if known is None else None)
    proposed = None
    if wanted and wanted not in projects:
        proposed = free_name(wanted if is_name(wanted) else propose_name(wanted), projects)
    is_new = proposed is not None and prediction.project is None and prediction.confidence is not Confidence.LOW
    # Never high confidence before the user agreed to a new project.
    confidence = Confidence.MEDIUM if is_new else Confidence.LOW
    return Prediction(None, proposed, confidence, prediction.reason[:MAX_REASON_LENGTH])


def answer_schema() -> dict[str, Any]:
    text_or_null = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    confidence = {"type": "string", "enum": [each.value for each in Confidence]}
    names = {"project": text_or_null, "proposed_name": text_or_null}
    return object_schema({**names, "confidence": confidence, "reason": {"type": "string"}})


def parse_prediction(data: Mapping[str, Any]) -> Prediction:
    return Prediction(
        data["project"] or None, data["proposed_name"] or None, Confidence(data["confidence"]), data["reason"]
    )
