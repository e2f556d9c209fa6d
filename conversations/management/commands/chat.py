"""`manage.py chat`: talk with an agent in the terminal, with all that it remembers."""

import asyncio
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from conversations.actions.answers import ChatFailed, TurnSuperseded
from conversations.actions.chat import PreparedTurn, prepare_turn, stream_answer
from conversations.actions.questions import Question
from conversations.actions.sessions import SessionTaken
from conversations.domain.assembly import InvalidContext
from conversations.domain.budget import ContextTooLarge
from conversations.domain.content import one_line, visible
from conversations.models import ChatTurn
from memoryhub.auth.access import UnknownRow, actor_for_writing
from memoryhub.auth.principals import command
from memoryhub.ids import new_id
from memoryhub.llm.types import Delta
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policy import AGENT_ID_PATTERN
from memoryhub.validators import text_problem

BY = command("chat")
COMMANDS = "/why: what the last answer knew; /new: begin a new session; /quit (or Ctrl-D): end."


class Command(BaseCommand):
    help = f"Talk with an agent in the terminal. {COMMANDS}"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--agent", required=True, help="The agent's id; made where there is none.")
        parser.add_argument("--user", required=True, help="Whose memory it is; an empty one is the agent itself.")
        parser.add_argument("--session", type=UUID, help="A session to go on with.")
        parser.add_argument("--no-memory", action="store_true", help="Send each message by itself.")

    def handle(self, *args: Any, **options: Any) -> None:
        if not AGENT_ID_PATTERN.match(options["agent"]):
            raise CommandError("--agent must be 1 to 255 letters, digits, - or _.")
        actor = actor_for_writing(BY, options["agent"], options["user"] or None, now=datetime.now(UTC))
        self.session_id: UUID | None = options["session"]
        self.last: ChatTurn | None = None
        self.is_unanswered = False
        if sys.stdin.isatty():
            self.stdout.write(COMMANDS)
        for line in self._lines():
            if line == "/quit":
                break
            if line == "/new":
                self.session_id = self.last = None
            elif line == "/why":
                self._explain()
            else:
                self._answer(actor, line, with_memory=not options["no_memory"])
        if self.session_id:
            self.stdout.write(f"Go on with --session {self.session_id}")
        if self.is_unanswered:
            raise CommandError("The last message has no answer.")

    def _lines(self) -> Iterator[str]:
        while True:
            try:
                line = input("> " if sys.stdin.isatty() else "").strip()
            except (EOFError, KeyboardInterrupt):
                return
            if problem := text_problem(line):
                self.stderr.write(problem)
            elif line:
                yield line

    def _explain(self) -> None:
        for item in self.last.receipt.items if self.last and self.last.receipt else []:
            verdict, opening = (
                "in " if item["included"] else "out",
                one_line(item["excerpt"] or "(text removed)")[:80],
            )
            self.stdout.write(f"{verdict} {item['layer']:<16} {item['tokens']:>6}  {opening}  ({item['reason']})")

    def _answer(self, actor: Actor, message: str, *, with_memory: bool) -> None:
        question = Question(
            message=message, session_id=self.session_id or new_id(), channel="terminal", with_memory=with_memory
        )
        self.is_unanswered = True
        try:
            prepared = prepare_turn(actor=actor, question=question, by=BY, now=datetime.now(UTC))
            self.session_id = question.session_id
            self.last = asyncio.run(self._write(prepared))
            self.is_unanswered = False
        except KeyboardInterrupt:
            self.stderr.write("\nNot waited for; the message is kept.")
        except (SessionTaken, UnknownRow) as error:
            raise CommandError(str(error)) from error
        except (ChatFailed, ContextTooLarge, InvalidContext, TurnSuperseded) as error:
            self.session_id = question.session_id
            self.stderr.write(f"\nNo answer: {error} The message is kept.")

    async def _write(self, prepared: PreparedTurn) -> ChatTurn:
        stream = stream_answer(prepared=prepared, by=BY)
        while isinstance(piece := await stream.next(), Delta):
            self.stdout.write(visible(piece.text), ending="")
            self.stdout.flush()
        self.stdout.write("")
        return piece
