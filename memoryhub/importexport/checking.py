"""Reading an export once through before anything is written: is it whole, and can every row of it be read here?"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final
from uuid import UUID

from memoryhub.importexport.lines import BrokenFile, Line, Part, read_lines
from memoryhub.importexport.renaming import Names, Renaming
from memoryhub.importexport.tables import ACTORS, AGENTS, Table, exported_tables
from memoryhub.importexport.values import WrongValue
from memoryhub.tenancy.domain import AGENT_ID_PATTERN, MAX_USER_ID, actor_id

Progress = Callable[[int], None]
MOST_PROBLEMS: Final = 20
_READ_BEFORE_TOLD: Final = 1_000


@dataclass
class Checked:
    """What a file holds: how many lines, which agents, how many actors, and the ids that get new ones."""

    lines: int = 0
    agents: set[str] = field(default_factory=set)
    actors: int = 0
    renaming: Renaming = field(default_factory=Renaming)


def check_names(names: Names) -> None:
    """Raise BrokenFile for a name that no agent or user can have."""
    if names.agent_id is not None and not AGENT_ID_PATTERN.match(names.agent_id):
        raise BrokenFile("An agent's id has letters, digits, - and _ alone.")
    if names.user_id is not None and (len(names.user_id) > MAX_USER_ID or "\x00" in names.user_id):
        raise BrokenFile(f"A user's id has at most {MAX_USER_ID} characters, and no NUL.")


def check(file: BinaryIO, names: Names, *, progress: Progress) -> Checked:
    """Read an export through; raises BrokenFile with every line (of the first twenty) that is wrong."""
    check_names(names)
    found = _Check(names, {table.name: table for table in exported_tables()})
    for line in read_lines(file):
        found.take(line)
        if line.number % _READ_BEFORE_TOLD == 0:
            progress(_READ_BEFORE_TOLD)
    found.finish()
    return found.checked


class _Check:
    def __init__(self, names: Names, tables: Mapping[str, Table]) -> None:
        self.names, self.tables = names, tables
        self.checked = Checked()
        self.problems: list[str] = []
        self.agent: str | None = None
        self.actor: UUID | None = None
        self.new_actor: UUID | None = None

    def take(self, line: Line) -> None:
        """Note what a line holds, or what is wrong with it."""
        self.checked.lines = line.number
        takes: dict[Part, Callable[[Line], None]] = {
            Part.AGENT: self._agent, Part.ACTOR: self._actor, Part.ROW: self._row
        }  # fmt: skip
        try:
            if line.part in takes:
                takes[line.part](line)
        except WrongValue as error:
            self.problems.append(f"Line {line.number}: {error}")
            if len(self.problems) >= MOST_PROBLEMS:
                raise BrokenFile("\n".join([*self.problems, "… and perhaps more."])) from None

    def finish(self) -> None:
        """Raise BrokenFile where something was wrong, or the names do not suit what the file holds."""
        if self.names.agent_id is not None and len(self.checked.agents) > 1:
            self.problems.append("The file holds several agents; --agent would make one of them.")
        if self.names.user_id is not None and self.checked.actors > 1:
            self.problems.append("The file holds several actors; --user would make one of them.")
        if self.problems:
            raise BrokenFile("\n".join(self.problems))

    def _agent(self, line: Line) -> None:
        agent: Any = AGENTS.read(line.values, None)
        self.agent, self.actor = agent.agent_id, None
        self.checked.agents.add(agent.agent_id)

    def _actor(self, line: Line) -> None:
        actor: Any = ACTORS.read(line.values, None)
        if actor.agent_id != self.agent:
            raise WrongValue("the actor stands below another agent's line.")
        if actor.id != actor_id(actor.agent_id, actor.user_id):
            raise WrongValue("the actor's id is not that of its agent and user.")
        self.actor = actor.id
        self.new_actor = actor_id(*self.names.of(actor.agent_id, actor.user_id))
        self.checked.actors += 1
        if self.new_actor != self.actor:
            self.checked.renaming.add_actor(actor.id, self.new_actor)

    def _row(self, line: Line) -> None:
        table = self.tables.get(line.table)
        if table is None:
            raise WrongValue(f"the table {line.table[:60]!a} is not known here.")
        if self.actor is None or self.new_actor is None:
            raise WrongValue("the row stands below no actor's line.")
        row = table.read(line.values, self.actor)
        if table.own_id and self.new_actor != self.actor:
            self.checked.renaming.add(getattr(row, table.own_id), self.new_actor)
