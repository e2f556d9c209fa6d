"""Every private part of a library that the code uses is in docs/reference/private-parts.md, with a test and a bound."""

import ast
import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from inspect import getmembers, isclass

import pytest

from memoryhub.env import CHECKOUT
from tests.sources import nodes

APPS = ("conversations", "memoryhub", "strength", "summaries")
FILES = [
    file
    for app in APPS
    for file in sorted((CHECKOUT / app).rglob("*.py"))
    if not {"migrations", "locale", "commands"} & set(file.parts)
]
ROW = re.compile(r"^\| `([^`]+)` \| ([a-z0-9-]+) \|.*\| `(tests/[^`:]+)(?:::(\w+))?` \|$", re.M)
PAGE = (CHECKOUT / "docs" / "reference" / "private-parts.md").read_text("utf-8")
PARTS = {part: (library, test, name) for part, library, test, name in ROW.findall(PAGE)}
DOCUMENTED = {"_meta", "_base_manager", "_default_manager", "_state", "_replace", "_asdict", "_fields", "_exit"}
"""Names that Django and Python document in spite of the underscore."""


def is_private(name: str) -> bool:
    return bool(re.match("_[a-z]", name)) and name[-1] != "_" and name not in DOCUMENTED


def own_names(code: list[ast.AST]) -> set[str]:
    names = set()
    for node in code:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names |= {node.attr} if ast.unparse(node.value) == "self" else set()
        elif isinstance(node, ast.AnnAssign):
            names.add(ast.unparse(node.target))
    return names


NODES = [node for file in FILES for node in nodes(file)]
OWN = own_names(NODES)


def named_parts() -> Iterator[str]:
    """Yield private modules, names and attributes that the code imports, reads or writes."""
    for node in NODES:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] not in APPS:
            for name in (alias.name for alias in node.names):
                if any(part == "internal" or is_private(part) for part in (*node.module.split("."), name)):
                    yield name
        elif isinstance(node, ast.Attribute) and is_private(node.attr) and is_foreign(node):
            yield node.attr


def is_foreign(node: ast.Attribute) -> bool:
    return node.attr not in OWN or ast.unparse(node.value) == "super()"


def overridden_parts() -> Iterator[str]:
    """Yield private attributes of libraries' classes that ours replace."""
    modules = [".".join(file.relative_to(CHECKOUT).with_suffix("").parts) for file in FILES if file.stem != "__main__"]
    for module in map(import_module, modules):
        for _name, own in getmembers(module, isclass):
            if own.__module__ == module.__name__:
                bases = [base for base in own.__mro__[1:] if base.__module__.split(".")[0] not in APPS]
                names = {name for name in vars(own).keys() & OWN if is_private(name)}
                yield from (name for name in names if any(name in vars(base) for base in bases))


def test_used_parts_are_listed() -> None:
    assert {*named_parts(), *overridden_parts()} - PARTS.keys() == set()


@pytest.mark.parametrize("part", PARTS)
def test_a_listed_part_is_used_has_a_test_and_an_upper_bound(part: str) -> None:
    library, test, name = PARTS[part]
    assert any(part in file.read_text("utf-8") for file in FILES)
    assert name in (CHECKOUT / test).read_text("utf-8")
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]
    bounds = [each for each in project["dependencies"] if re.match(rf"{library}\b(?!-)", each)]
    assert library == "python" or ["<" in each for each in bounds] == [True]
