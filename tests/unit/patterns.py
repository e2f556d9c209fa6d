"""Every regular expression of the production code, and texts that make a bad one slow."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any, Final

from tests.sources import nodes

PACKAGES: Final = ("memoryhub", "conversations", "strength", "summaries")
METHODS: Final = ("finditer", "match", "fullmatch")
"""What is timed: `search`, `sub`, `split` and `findall` read as `finditer` does."""

_FUNCTIONS: Final = {"compile", "sub", "subn", "match", "search", "fullmatch", "findall", "finditer", "split"}
_VALIDATORS: Final = {"PatternField", "RegexField", "RegexValidator"}
_DEPTH: Final = 6


@dataclass
class Used:
    """A pattern, where it is, and by which methods it is used."""

    pattern: re.Pattern[Any]
    places: set[str] = field(default_factory=set)
    methods: set[str] = field(default_factory=set)


@cache
def modules() -> dict[str, ModuleType]:
    found = {}
    for package in PACKAGES:
        root = importlib.import_module(package)
        for info in pkgutil.walk_packages(root.__path__, f"{package}."):
            if ".migrations" not in info.name and not info.name.endswith("__main__"):
                found[info.name] = importlib.import_module(info.name)
    return found


@cache
def collected() -> tuple[dict[str, Used], list[str]]:
    """Return the patterns by their names, and where one is made of values that only a call has."""
    patterns: dict[tuple[Any, int], Used] = {}
    local: list[str] = []

    def add(pattern: re.Pattern[Any], place: str, methods: Collection[str]) -> None:
        used = patterns.setdefault((pattern.pattern, pattern.flags), Used(pattern))
        used.places.add(place)
        used.methods |= {*methods}

    nodes_by_module = {name: _nodes(module) for name, module in modules().items()}
    uses = _uses(nodes_by_module.values())
    for name, module in modules().items():
        for attribute, value in vars(module).items():
            for pattern in _patterns_in(value):
                add(pattern, f"{name}.{attribute}", uses.get(attribute, METHODS))
        for node in nodes_by_module[name]:
            if (function := _called(node)) is None:
                continue
            assert isinstance(node, ast.Call)
            try:
                value = eval(compile(ast.Expression(node.args[0]), name, "eval"), vars(module))
            except NameError:
                local.append(f"{name}: {ast.unparse(node.args[0])}")
                continue
            methods = {"match", "fullmatch"} & {function} or {"finditer"}
            if function != "compile":
                add(re.compile(value), f"{name}:{node.lineno}", methods)
            elif re.compile(value) not in [used.pattern for used in patterns.values()]:
                add(re.compile(value), f"{name}:{node.lineno}", METHODS)
    named: dict[str, Used] = {}
    for used in patterns.values():
        name = min(used.places)
        # The patterns of one table have one place.
        named[f"{name}: {used.pattern.pattern!r}" if name in named else name] = used
    return named, local


def _nodes(module: ModuleType) -> tuple[ast.AST, ...]:
    return nodes(Path(module.__file__)) if module.__file__ else ()


def _called(node: ast.AST) -> str | None:
    """Return the name of a call that takes a pattern first: of `re`, or of a field that validates by one."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    if isinstance(node.func, ast.Name):
        return node.func.id if node.func.id in _VALIDATORS else None
    if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
        is_re = node.func.value.id == "re" and node.func.attr in _FUNCTIONS
        return node.func.attr if is_re or node.func.attr in _VALIDATORS else None
    return None


def _uses(modules: Collection[Collection[ast.AST]]) -> dict[str, set[str]]:
    """Return by which methods each name is used; a bare name is handed on, and may be used by any."""
    uses: dict[str, set[str]] = {}
    for nodes_of_one in modules:
        receivers = set[ast.AST]()
        for node in nodes_of_one:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
                receivers.add(node.value)
                name = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
                if node.attr in _FUNCTIONS:
                    uses.setdefault(name, set()).add(node.attr if node.attr in METHODS else "finditer")
        for node in nodes_of_one:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node not in receivers:
                uses.setdefault(node.id, set()).update(METHODS)
    return uses


def _patterns_in(value: Any, depth: int = _DEPTH) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth > 0 and isinstance(value, dict):
        for part in (*value.keys(), *value.values()):
            yield from _patterns_in(part, depth - 1)
    elif depth > 0 and isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from _patterns_in(part, depth - 1)
    elif depth > 0 and str(getattr(value, "__module__", "")).split(".")[0] in PACKAGES and hasattr(value, "__dict__"):
        for part in list(vars(value).values()):
            if not isinstance(part, ModuleType):
                yield from _patterns_in(part, depth - 2)


# Texts

_COMMON: Final = (
    " ",
    "\r",
    "\n",
    "\t",
    "a",
    "A",
    "1",
    ".",
    "-",
    "あ",
    "ア",
    "漢",
    "(",
    "[",
    '"',
    "`",
    "*",
    "#",
    "\u0301",
)
_CATEGORIES: Final = {
    sre.CATEGORY_DIGIT: ("1",), sre.CATEGORY_SPACE: (" ", "\n", "\r"), sre.CATEGORY_WORD: ("a", "1", "あ"),
    sre.CATEGORY_NOT_DIGIT: ("a", "."), sre.CATEGORY_NOT_SPACE: ("a", "."), sre.CATEGORY_NOT_WORD: (" ", ".", "\r"),
}  # fmt: skip
_REPEATS: Final = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)
_MAX_LETTERS: Final = 40
_MAX_WORDS: Final = 60
_MAX_PAIRED: Final = 8


def units(pattern: re.Pattern[Any]) -> list[str]:
    """Return what to repeat: a pattern's own letters, its beginnings (also with a blank), and pairs of letters."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    letters: list[str] = []
    words: list[str] = []
    _read(_parser.parse(source, pattern.flags & re.VERBOSE), letters, words)
    letters = _sample(letters, _MAX_LETTERS)
    words = _sample([word for word in words if len(word) > 1], _MAX_WORDS)
    paired = [*letters[:_MAX_PAIRED], " ", "a", "1"]
    pairs = (one + other for one in paired for other in paired if one != other)
    return [*dict.fromkeys([*letters, *_COMMON, *words, *(f"{word} " for word in words), *pairs])]


def _sample(texts: list[str], limit: int) -> list[str]:
    unique = [*dict.fromkeys(texts)]
    return unique[:: -(-len(unique) // limit) or 1]


def _letters(op: Any, argument: Any) -> list[str]:
    if op is sre.LITERAL:
        return [chr(argument)]
    if op is sre.NOT_LITERAL or op is sre.ANY:
        return ["x", " ", "\n"]
    if op is not sre.IN:
        return []
    if argument[0][0] is sre.NEGATE:
        return ["a", "1", " ", "\r", "\n", "あ", ".", "["]
    found: list[str] = []
    for kind, value in argument:
        if kind is sre.CATEGORY:
            found += _CATEGORIES[value]
        else:
            found += [chr(value)] if kind is sre.LITERAL else map(chr, value)
    return found


def _parts(op: Any, argument: Any) -> list[Any]:
    if op is sre.BRANCH:
        return list(argument[1])
    if op is sre.SUBPATTERN:
        return [argument[3]]
    if op in _REPEATS:
        return [argument[2]]
    if op is sre.ATOMIC_GROUP:
        return [argument]
    return [argument[1]] if op in (sre.ASSERT, sre.ASSERT_NOT) else []


def _read(sequence: Any, letters: list[str], words: list[str]) -> None:
    begun = ["", ""]
    for op, argument in sequence:
        letters += _letters(op, argument)
        for part in _parts(op, argument):
            _read(part, letters, words)
        begun = [start + _example(op, argument, pick) for pick, start in enumerate(begun)]
        words += begun


def _example(op: Any, argument: Any, pick: int) -> str:
    if letters := _letters(op, argument):
        return letters[pick % len(letters)]
    if op in (sre.ASSERT, sre.ASSERT_NOT) or not (parts := _parts(op, argument)):
        return ""
    one = "".join(_example(*each, pick) for each in parts[pick % len(parts)])
    return one * max(1, min(argument[0], 3)) if op in _REPEATS else one
