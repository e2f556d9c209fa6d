"""Ask a self-hosted server for a model's context window: llama.cpp, Ollama, LM Studio, vLLM and gateways.

Each reports it at another address, and none of them in the API that all share. What is unknown stays unknown.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import httpx2

from memoryhub.llm.answers import value_at

ASK_SECONDS: Final = 2.0

OLLAMA_WINDOW: Final = 4_096
"""Ollama's window where neither a loaded model nor the model file has another: `OLLAMA_CONTEXT_LENGTH`'s default."""

LISTED_AS: Final = ("max_model_len", "context_length", "context_window", "max_context_length")
"""Names in lists of models: vLLM's, OpenRouter's, Groq's, Mistral's."""

_NUM_CTX: Final = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)


def reported_window(base_url: str, model: str, *, api_key: str | None, seconds: float = ASK_SECONDS) -> int | None:
    """Return the context window in tokens that a server reports for a model; None where it reports none. Network."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    root = base_url.removesuffix("/v1")
    with httpx2.Client(headers=headers, timeout=seconds, follow_redirects=False) as http:
        try:
            return next(filter(None, _windows(http, root, base_url, model)), None)
        except httpx2.TransportError:
            return None


def _windows(http: httpx2.Client, root: str, base_url: str, model: str) -> Iterator[int | None]:
    yield _size(value_at(_json(http.get(f"{root}/props")), "default_generation_settings", "n_ctx"))  # llama.cpp
    loaded = value_at(_json(http.get(f"{root}/api/ps")), "models")
    if isinstance(loaded, list):
        yield _ollama(http, root, loaded, model)
    yield _listed(value_at(_json(http.get(f"{root}/api/v0/models")), "data"), model, ("loaded_context_length",))
    yield _listed(value_at(_json(http.get(f"{base_url}/models")), "data"), model, LISTED_AS)


def _ollama(http: httpx2.Client, root: str, loaded: list[Any], model: str) -> int:
    """Return the window of the loaded model, else that of its file, else Ollama's default."""
    for each in loaded:
        if model in (value_at(each, "name"), value_at(each, "model")) and (
            size := _size(value_at(each, "context_length"))
        ):
            return size
    shown = _json(http.post(f"{root}/api/show", json={"model": model}))
    parameters = value_at(shown, "parameters")
    set_in_file = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    return int(set_in_file[1]) if set_in_file else OLLAMA_WINDOW


def _listed(models: Any, model: str, names: tuple[str, ...]) -> int | None:
    rows = [each for each in models if value_at(each, "id") == model] if isinstance(models, list) else []
    return next((size for each in rows for name in names if (size := _size(value_at(each, name)))), None)


def _size(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _json(response: httpx2.Response) -> Mapping[str, Any] | None:
    try:
        document = response.json() if response.status_code == 200 else None
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
