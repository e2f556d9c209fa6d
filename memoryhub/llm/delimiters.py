"""Texts of others inside a prompt: each between two lines with a fence, a random text that they cannot know. Pure."""

from collections.abc import Mapping


class ForgedFence(ValueError):
    """A text contains the fence and could close its block; draw another."""


def fenced(blocks: Mapping[str, str], fence: str) -> str:
    """Return each text between two lines of its heading and the fence. Raises ForgedFence."""
    if not fence or any(fence in text for text in blocks.values()):
        raise ForgedFence("A text contains the fence.")
    return "\n\n".join(
        f"<{heading} {fence}>\n{text}\n</{heading} {fence}>" for heading, text in blocks.items()
    )
