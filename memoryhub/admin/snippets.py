"""First calls with a new key, to copy: for the shell, Python and JavaScript."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from string import Template
from typing import Any, Final

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext_lazy as _


@dataclass(frozen=True)
class Snippet:
    """A program of a few lines: an id for the page, what it is written in, and the text."""

    name: str
    title: Any
    text: str


CURL: Final = Template(
    """curl -s $address \\
  -H "Authorization: Bearer $key" \\
  -H "Content-Type: application/json" \\
  -d '$body'"""
)
URLLIB: Final = Template(
    """import json
import urllib.request

request = urllib.request.Request(
    "$address",
    data=json.dumps($python).encode(),
    headers={"Authorization": "Bearer $key", "Content-Type": "application/json"},
)
with urllib.request.urlopen(request) as answer:
    print(json.load(answer))"""
)
REQUESTS: Final = Template(
    """import requests

answer = requests.post(
    "$address",
    json=$python,
    headers={"Authorization": "Bearer $key"},
    timeout=30,
)
answer.raise_for_status()
print(answer.json())"""
)
FETCH: Final = Template(
    """const answer = await fetch("$address", {
  method: "POST",
  headers: {"Authorization": "Bearer $key", "Content-Type": "application/json"},
  body: JSON.stringify($body),
});
console.log(await answer.json());"""
)
SNIPPETS: Final = (
    ("curl", _("Shell (curl)"), CURL),
    ("urllib", _("Python (standard library)"), URLLIB),
    ("requests", _("Python (requests)"), REQUESTS),
    ("fetch", _("JavaScript (fetch)"), FETCH),
)


def snippets(
    request: HttpRequest, key: str, *, agent_ids: Sequence[str] | None, user_id: str | None
) -> list[Snippet]:
    """Return calls that ask this server, at the address the person sees it under, for a context."""
    body = {
        "agent_id": (agent_ids or ["my-agent"])[0],
        **({"user_id": user_id} if user_id else {}),
        "message": "What do you remember?",
    }
    # ASCII alone, and no quote that would end the shell's: ids of agents are slugs, a user's may hold anything.
    text = json.dumps(body).replace("'", "\\u0027")
    values = {
        "address": request.build_absolute_uri(reverse("context")),
        "key": key,
        "body": text,
        "python": text,
    }
    return [Snippet(name, title, template.substitute(values)) for name, title, template in SNIPPETS]
