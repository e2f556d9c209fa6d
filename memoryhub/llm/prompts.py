"""Prompt templates, one text file for each name and language, and delimiters for untrusted text inside them.

The files are `templates/prompts/<language>/<name>.txt`; `$name` is a placeholder. Text of users and documents is never
put into a prompt as it is: `fenced` puts it between two lines that hold a random text (the fence), and the prompt
tells the model that such text is data. The fence itself stands in the user's message alone, so that the instructions
are the same in every call and providers can cache them.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from string import Template

FOLDER = Path(__file__).resolve().parents[2] / "templates" / "prompts"
LANGUAGES = ("en", "ja")


def prompt(name: str, language: str, /, **values: object) -> str:
    """Return a prompt in a language (English where there is none in that), its values filled in.

    Raises FileNotFoundError for an unknown name, KeyError where a value is missing.
    """
    return _template(name, language if language in LANGUAGES else "en").substitute(values)


@cache
def _template(name: str, language: str) -> Template:
    return Template(Path(FOLDER, language, f"{name}.txt").read_text(encoding="utf-8").strip())


class ForgedDelimiter(ValueError):
    """A text contains the fence and could close its block; draw another."""


def fenced(blocks: Mapping[str, str], fence: str) -> str:
    """Return each text between two lines of its heading and the fence. Raises ForgedDelimiter."""
    if not fence or any(fence in text for text in blocks.values()):
        raise ForgedDelimiter("A text contains the fence.")
    return "\n\n".join(f"<{heading} {fence}>\n{text}\n</{heading} {fence}>" for heading, text in blocks.items())
