"""How messages find their project, and how much of its memory enters a context (SPEC P3, P5)."""

from dataclasses import dataclass
from typing import Final

from memoryhub.tenancy.domain import Policy, one_of, switch, whole

OFF: Final = "off"
AUTO: Final = "auto"


@dataclass(frozen=True, kw_only=True)
class ProjectPolicy(Policy):
    """The values that an agent or a user may override; tokens are counted by o200k.

    `project_routing` `auto` routes what names no project as well. `project_search_tokens` is how much of the
    documents beside `MEMORY.md` and `pinned.md` may enter a context; 0: none.
    """

    project_routing: str = OFF
    project_auto_create: bool = False
    routing_examples: int = 10
    routing_deadline_seconds: int = 20
    project_search_tokens: int = 1500

    CHECKS = {
        "project_routing": one_of(OFF, AUTO),
        "project_auto_create": switch(),
        "routing_examples": whole(0, 50),
        "routing_deadline_seconds": whole(1, 120),
        "project_search_tokens": whole(0, 20_000),
    }
