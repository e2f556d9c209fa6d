"""How strategies ask a language model: a prompt from its file, texts of others behind a fence, one form of answer."""

import secrets
from collections.abc import Mapping
from typing import Any, Final

from memoryhub.llm.base import ChatMessage, CompletionRequest, Operation
from memoryhub.llm.delimiters import fenced
from memoryhub.providers.asking import ask
from memoryhub.providers.prompts import prompt
from memoryhub.tenancy.models import Actor

DEADLINE_SECONDS: Final = 60.0
ANSWER_TOKENS: Final = 4_000
FENCE_BYTES: Final = 16


def ask_about(
    actor: Actor,
    operation: Operation,
    name: str,
    blocks: Mapping[str, str],
    schema: Mapping[str, Any],
    **values: object,
) -> Any:
    """Return a model's parsed answer to the prompt `name` about these texts; network, so outside any transaction.

    Raises ProviderError.
    """
    fence = secrets.token_hex(FENCE_BYTES)
    request = CompletionRequest(
        operation=operation,
        messages=(ChatMessage("user", fenced(blocks, fence)),),
        max_output_tokens=ANSWER_TOKENS,
        deadline_seconds=DEADLINE_SECONDS,
        system=prompt(name, actor.agent.language, fence=fence, **values),
        json_schema=schema,
    )
    return ask(request, actor=actor).data
