"""memoryhub's settings without any work that follows a turn: what a message costs by itself."""

from typing import Any

from memoryhub.settings import *  # noqa: F403

AFTER_TURN: dict[str, dict[str, Any]] = {}
AFTER_ANSWER: dict[str, dict[str, Any]] = {}
AFTER_SESSION: dict[str, dict[str, Any]] = {}
AFTER_SUMMARY: dict[str, dict[str, Any]] = {}
