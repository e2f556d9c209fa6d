"""Language in which models write what is stored of an actor (policy `memory_language`, SPEC L7)."""

from collections.abc import Iterable
from typing import cast

from conversations.domain.content import Language
from conversations.domain.policy import WritingPolicy
from conversations.domain.statements.languages import AUTO, Writing, writing
from memoryhub.auth.access import Tenant
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy


def writing_for(actor: Actor, texts: Iterable[str], *, is_one: bool = False) -> Writing:
    """Return the language for statements drawn from texts, or with `is_one` for one text about them."""
    setting = effective_policy(WritingPolicy, actor.agent, actor).memory_language
    return writing(setting, texts, agent=actor.agent.language, is_one=is_one)


def headings_language(tenant: Tenant, message: str) -> Language:
    """Return the language of a context's fixed headings: by default that of the user's message."""
    own = tenant.agent.language if tenant.agent else "en"
    setting = effective_policy(WritingPolicy, tenant.agent, tenant.actor).memory_language
    return cast("Language", writing(setting, [message], agent=own, is_one=True).prompt)


def language_asked_for(actor: Actor) -> str:
    """Return the tag of the language that every statement is asked for; "" for that of its source."""
    setting = effective_policy(WritingPolicy, actor.agent, actor).memory_language
    return "" if setting == AUTO else writing(setting, (), agent=actor.agent.language).tag
