"""The exact size of a context, as the provider itself counts it (SPEC A7): asked for, because it takes a call."""

import logging
from typing import Final

from conversations.domain.assembly import Assembly
from conversations.domain.chat import split_system
from conversations.domain.formats import Format
from memoryhub.db_pool import release_connection
from memoryhub.llm.base import ChatMessage, CompletionRequest, Operation
from memoryhub.providers.errors import ProviderError
from memoryhub.providers.registry import llm_provider

DEADLINE_SECONDS: Final = 10.0

log = logging.getLogger(__name__)


def exact_tokens(*, assembly: Assembly, form: Format) -> int | None:
    """Return a context's tokens as the configured provider counts them.

    None where it cannot tell, is away, or takes contexts in another form.
    """
    provider = llm_provider(Operation.CHAT)
    if provider.form != form:
        return None
    plain = split_system(form, assembly.system, assembly.messages)
    request = CompletionRequest(
        operation=Operation.CHAT,
        messages=tuple(ChatMessage(each["role"], each["content"]) for each in plain.turns),
        max_output_tokens=1,
        deadline_seconds=DEADLINE_SECONDS,
        system=plain.system,
    )
    try:
        with release_connection():
            return provider.count_tokens(request)
    except ProviderError as error:
        log.warning("tokens not counted", extra={"code": error.code})
        return None
