"""The verbs that the code writes down, read from the code itself: what is given to a function as its `verb`."""

import ast
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from inspect import ismethod
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
APPS = ("memoryhub", "conversations", "summaries", "strength")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Taking:
    """A function of ours that writes down the verb which it is given under a name."""

    module: str
    function: str
    name: str
    place: int | None
    default: ast.expr | None = None


@dataclass
class Verbs:
    """What was found: the verbs, and the places whose verb cannot be read."""

    written: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)


def verbs_given_to(takers: Collection[Callable[..., Any]], closed: Mapping[str, Collection[str]]) -> Verbs:
    """Return every verb that reaches one of these functions, through whatever functions hand it on.

    `closed` are functions that refuse any verb but these, so that nobody has to look at who calls them.
    """
    found = Verbs()
    waiting = [Taking(each.__module__, each.__name__, "verb", None) for each in takers]
    seen = set(waiting)
    while waiting:
        taking = waiting.pop()
        if taking.function in closed:
            found.written.update(closed[taking.function])
            continue
        for module, inside, call in _calls(taking):
            given = _given(call, taking)
            if given is None:
                _read(taking.module, (), taking.default, found)
                continue
            handed_on = _parameter(inside, given)
            if handed_on is None:
                _read(module, inside, given, found)
                continue
            next_one = Taking(module, inside[-1].name, *handed_on)
            if next_one not in seen:
                seen.add(next_one)
                waiting.append(next_one)
    return found


@cache
def _modules() -> dict[str, ast.Module]:
    paths = [path for app in APPS for path in (ROOT / app).rglob("*.py") if "migrations" not in path.parts]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): ast.parse(path.read_text()) for path in paths}


@cache
def _all_calls() -> list[tuple[str, tuple[Function, ...], ast.Call]]:
    return [(module, inside, call) for module, tree in _modules().items() for inside, call in _calls_within(tree, ())]


def _calls_within(node: ast.AST, inside: tuple[Function, ...]) -> Iterator[tuple[tuple[Function, ...], ast.Call]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield inside, child
        yield from _calls_within(child, (*inside, child) if isinstance(child, Function) else inside)


def _calls(taking: Taking) -> Iterator[tuple[str, tuple[Function, ...], ast.Call]]:
    """Yield the calls of a function; of a method, and of what is imported where it is called, by the name alone."""
    meant = getattr(import_module(taking.module), taking.function, None)
    for module, inside, call in _all_calls():
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if name != taking.function or (name.startswith("_") and module != taking.module):
            continue
        called = _value(module, call.func)
        is_method = meant is None and ismethod(called)
        if called is meant or is_method or (called is None and isinstance(call.func, ast.Name)):
            yield module, inside, call


def _given(call: ast.Call, taking: Taking) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == taking.name:
            return keyword.value
    is_method = isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) in ("self", "super()")
    place = None if taking.place is None else taking.place - is_method
    return call.args[place] if place is not None and place < len(call.args) else None


def _parameter(inside: tuple[Function, ...], given: ast.expr | None) -> tuple[str, int | None, ast.expr | None] | None:
    """Return the name, the place and the default of the parameter that is handed on, where it is one."""
    if not inside or not isinstance(given, ast.Name):
        return None
    taken = inside[-1].args
    places = [each.arg for each in (*taken.posonlyargs, *taken.args)]
    if given.id in places:
        place = places.index(given.id)
        defaults = [*[None] * (len(places) - len(taken.defaults)), *taken.defaults]
        return given.id, place, defaults[place]
    by_name = {each.arg: value for each, value in zip(taken.kwonlyargs, taken.kw_defaults, strict=True)}
    return (given.id, None, by_name[given.id]) if given.id in by_name else None


def _read(module: str, inside: tuple[Function, ...], given: ast.expr | None, found: Verbs) -> None:
    """Note the verbs that an expression can be: a literal, a constant, either of two, or any of a table's."""
    if isinstance(given, ast.IfExp):
        _read(module, inside, given.body, found)
        _read(module, inside, given.orelse, found)
        return
    if isinstance(given, ast.Name) and (set_here := _set_here(inside, given.id)):
        for each in set_here:
            _read(module, inside, each, found)
        return
    value = _value(module, given.value if isinstance(given, ast.Subscript) else given)
    if isinstance(value, str):
        found.written.add(str(value))
    elif isinstance(given, ast.Subscript) and isinstance(value, Mapping):
        found.written.update(map(str, value.values()))
    else:
        where = "nothing" if given is None else f"line {given.lineno}: {ast.unparse(given)}"
        found.unread.add(f"{module}, {where}")


def _set_here(inside: tuple[Function, ...], name: str) -> list[ast.expr]:
    """Return what a function sets a name of its own to."""
    return [
        node.value
        for node in (ast.walk(inside[-1]) if inside else ())
        if isinstance(node, ast.Assign) and name in map(ast.unparse, node.targets)
    ]


def _value(module: str, given: ast.expr | None) -> Any:
    match given:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return getattr(import_module(module), name, None)
        case ast.Attribute(value=owner, attr=name):
            return getattr(_value(module, owner), name, None)
    return None
