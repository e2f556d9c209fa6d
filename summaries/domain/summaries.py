"""What a summary is: who wrote it, and which changes make a version."""

from enum import StrEnum
from typing import Final


class Generator(StrEnum):
    """How a text came to be: by a model, or of sentences that were said."""

    LLM = "llm"
    EXTRACTIVE = "extractive"


class Verb(StrEnum):
    """What was done to a summary."""

    WRITE = "write"
    EDIT = "edit"
    LOCK = "lock"
    UNLOCK = "unlock"
    RESTORE = "restore"
    DELETE = "delete"


class Extent(StrEnum):
    """Why a version was written that no trigger explains: of a time alone, or from the session's beginning."""

    WINDOW = "window"
    ANEW = "anew"


JOB: Final = "summarize"
"""The kind of job that writes one."""

LONGEST_TEXT: Final = 20_000
"""Characters of a summary that a person writes; no policy lets a model write so much."""
