"""Files of the checkout that several tests read, each parsed once in a process."""

import ast
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from memoryhub.env import CHECKOUT


@cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a Python file, parents before their children."""
    return tuple(ast.walk(ast.parse(file.read_text("utf-8"))))


def from_yaml(text: str | bytes) -> Any:
    """Return what YAML says; libyaml reads the API's schema ten times as fast as PyYAML's own parser."""
    return yaml.load(text, yaml.CSafeLoader)


@cache
def openapi() -> dict[str, Any]:
    """Return the committed schema of the API."""
    schema: dict[str, Any] = from_yaml((CHECKOUT / "docs/reference/openapi.yaml").read_bytes())
    return schema
