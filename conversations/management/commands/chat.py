"""`manage.py chat`: talk with an agent in the terminal, with all that it remembers."""

import asyncio
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from conversations.actions.chat import Asked, ChatFailed, Question, TurnLost, chat_streaming, pose
from conversations.actions.sessions import SessionTaken
from conversations.domain.fitting import ContextTooLarge
from conversations.domain.validation import InvalidContext
from conversations.models import ChatTurn
from memoryhub.access.domain import command
from memoryhub.access.tenancy import UnknownRow, actor_for_writing
from memoryhub.providers.llm.base import Delta
from memoryhub.storable import text_problem
from memoryhub.tenants.domain import AGENT_ID_PATTERN
from memoryhub.tenants.models import Actor

BY = command("chat")
COMMANDS = "/why: what the last answer knew; /new: begin a new session; /quit (or Ctrl-D): end."
UNANSWERED = (ChatFailed, ContextTooLarge, InvalidContext, TurnLost, SessionTaken, UnknownRow)


class Command(BaseCommand):
    """Reads a message a line, and writes the answer as it comes."""

    help = f"Talk with an agent in the terminal. {COMMANDS}"

    def add_arguments(self, parser: CommandParser) -> None:
        """Take who talks with whom, and where they go on."""
        parser.add_argument("--agent", required=True, help="The agent's id; made where there is none.")
        parser.add_argument("--user", help="Whose memory it is; the agent's own without.")
        parser.add_argument("--session", type=UUID, help="A session to go on with.")
        parser.add_argument("--no-memory", action="store_true", help="Send each message by itself.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Talk until there is nothing more to read."""
        if not AGENT_ID_PATTERN.match(options["agent"]):
            raise CommandError("--agent must be 1 to 255 letters, digits, - or _.")
        actor = actor_for_writing(BY, options["agent"], options["user"], now=datetime.now(UTC))
        self.session_id: UUID | None = options["session"]
        self.last: ChatTurn | None = None
        if self._is_terminal():
            self.stdout.write(COMMANDS)
        for line in self._lines():
            if line == "/quit":
                break
            if line in ("/why", "/new"):
                self._obey(line)
            else:
                self._answer(actor, line, with_memory=not options["no_memory"])
        if self.session_id:
            self.stdout.write(f"Go on with --session {self.session_id}")

    def _lines(self) -> Iterator[str]:
        """Yield what is typed, blank lines apart; Ctrl-D and Ctrl-C end it."""
        while True:
            try:
                line = input("> " if self._is_terminal() else "").strip()
            except (EOFError, KeyboardInterrupt):
                return
            if problem := text_problem(line):
                self.stderr.write(problem)
            elif line:
                yield line

    @staticmethod
    def _is_terminal() -> bool:
        return sys.stdin.isatty()

    def _obey(self, line: str) -> None:
        if line == "/new":
            self.session_id = self.last = None
            return
        items = self.last.receipt.items if self.last and self.last.receipt else []
        for item in items:
            verdict = "in " if item["included"] else "out"
            self.stdout.write(
                f"{verdict} {item['layer']:<16} {item['tokens']:>6}  {item['excerpt'][:80]}  ({item['reason']})"
            )

    def _answer(self, actor: Actor, message: str, *, with_memory: bool) -> None:
        question = Question(
            message=message, session_id=self.session_id, channel="terminal", with_memory=with_memory
        )
        try:
            asked = pose(actor=actor, question=question, by=BY, now=datetime.now(UTC))
            self.session_id = asked.turn.session_id
            self.last = asyncio.run(self._write(asked))
        except UNANSWERED as error:
            self.stdout.write("")
            self.stderr.write(f"No answer: {error} The message is kept.")

    async def _write(self, asked: Asked) -> ChatTurn | None:
        turn = None
        async for piece in chat_streaming(asked=asked, by=BY):
            if isinstance(piece, Delta):
                self.stdout.write(piece.text, ending="")
                self.stdout.flush()
            else:
                turn = piece
        self.stdout.write("")
        return turn
