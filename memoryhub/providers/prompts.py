"""The prompts that models are given: one text file each and language, for people to read and change.

They lie in `templates/prompts/<language>/<name>.txt`; `$name` stands for a value. What others wrote is never put into
a prompt as it is: it stands between delimiters (`memoryhub.llm.delimiters`), and the prompt says what that means.
"""

from functools import cache
from pathlib import Path
from string import Template

from memoryhub.env import CHECKOUT

FOLDER = CHECKOUT / "templates" / "prompts"
LANGUAGES = ("en", "ja")


def prompt(name: str, language: str, /, **values: object) -> str:
    """Return a prompt in a language (English where there is none in that), its values filled in.

    Raises FileNotFoundError for an unknown name, KeyError where a value is missing.
    """
    return _template(name, language if language in LANGUAGES else "en").substitute(values)


@cache
def _template(name: str, language: str) -> Template:
    return Template(Path(FOLDER, language, f"{name}.txt").read_text(encoding="utf-8").strip())
