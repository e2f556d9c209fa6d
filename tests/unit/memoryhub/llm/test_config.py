"""Configuration is read loudly: what is wrong is named, what is secret is never shown."""

import pytest

from memoryhub.embeddings.config import EmbeddingConfig, azure_address_parts, ineffective_embedding_settings
from memoryhub.env import EnvironmentProblem
from memoryhub.llm.config import LLMConfig, default_model, ineffective_llm_settings
from memoryhub.llm.tokens import factors_for
from memoryhub.llm.types import Operation

AZURE = {
    "MEMORYHUB_EMBEDDING_PROVIDER": "azure",
    "AZURE_OPENAI_ENDPOINT": "https://example.test/",
    "AZURE_OPENAI_API_KEY": "azure-key",
    "AZURE_OPENAI_EMBEDDING_DEPLOYMENT": "my-embeddings",
}


def test_nothing_set_means_hashing_and_no_model() -> None:
    assert EmbeddingConfig.from_env({}) == EmbeddingConfig()
    assert LLMConfig.from_env({}) == LLMConfig()
    assert (EmbeddingConfig().provider, LLMConfig().provider) == ("hashing", "none")


def test_background_calls_to_a_self_hosted_server_may_take_minutes() -> None:
    vendor = LLMConfig.from_env({"OPENAI_API_KEY": "k"})
    assert (vendor.seconds_for(Operation.EXTRACT, 60.0), vendor.extra_seconds) == (60.0, 0.0)
    own = {"MEMORYHUB_LLM_PROVIDER": "openai", "MEMORYHUB_LLM_BASE_URL": "http://127.0.0.1:11434/v1"}
    config = LLMConfig.from_env(own)
    assert (config.seconds_for(Operation.EXTRACT, 60.0), config.extra_seconds) == (600.0, 540.0)
    config = LLMConfig.from_env({**own, "MEMORYHUB_LLM_SECONDS": "90", "MEMORYHUB_LLM_SECONDS_COMPACT": "1800"})
    assert [config.seconds_for(op, 60.0) for op in (Operation.JUDGE, Operation.COMPACT)] == [90.0, 1800.0]
    assert config.seconds_for(Operation.CHAT, 120.0) == 120.0


@pytest.mark.parametrize("value", ["soon", "0", "-1", "7200", "nan"])
def test_seconds_out_of_range_name_their_variable(value: str) -> None:
    with pytest.raises(EnvironmentProblem, match="MEMORYHUB_LLM_SECONDS must be a number of seconds from 1 to 3600"):
        LLMConfig.from_env({"OPENAI_API_KEY": "k", "MEMORYHUB_LLM_SECONDS": value})


OWN = {"MEMORYHUB_LLM_PROVIDER": "openai", "MEMORYHUB_LLM_BASE_URL": "http://127.0.0.1:11434/v1"}


def test_context_windows_are_set_for_all_operations_or_one() -> None:
    window = "MEMORYHUB_LLM_CONTEXT_WINDOW"
    config = LLMConfig.from_env({**OWN, window: "8192", f"{window}_CHAT": "32768"})

    assert (config.windows[Operation.CHAT], config.windows[Operation.EXTRACT]) == (32_768, 8_192)
    assert LLMConfig.from_env({**OWN, f"{window}_JUDGE": "4096"}).windows == {Operation.JUDGE: 4_096}


@pytest.mark.parametrize(
    ("url", "chosen", "parallel"),
    [
        ("http://127.0.0.1:11434/v1", "", 1),
        ("http://localhost:8080/v1", "", 1),
        ("http://192.168.1.7/v1", "", 1),
        ("http://ollama:11434/v1", "", 1),
        ("http://gpu.lan/v1", "", 1),
        ("http://[::1]:8000/v1", "4", 4),
        ("http://127.0.0.1:11434/v1", "0", None),
        ("https://api.deepseek.com/v1", "", None),
        ("https://api.deepseek.com/v1", "2", 2),
    ],
)
def test_a_local_server_is_asked_by_one_job_at_a_time(url: str, chosen: str, parallel: int | None) -> None:
    environ = {**OWN, "MEMORYHUB_LLM_BASE_URL": url, "MEMORYHUB_LLM_PARALLEL": chosen}

    assert LLMConfig.from_env(environ).parallel == parallel


@pytest.mark.parametrize(
    ("name", "value"),
    [("CONTEXT_WINDOW", "100"), ("CONTEXT_WINDOW_EXTRACT", "many"), ("PARALLEL", "-1"), ("PARALLEL", "65")],
)
def test_numbers_out_of_range_name_their_variable(name: str, value: str) -> None:
    with pytest.raises(EnvironmentProblem, match=f"MEMORYHUB_LLM_{name} must be a whole number from"):
        LLMConfig.from_env({**OWN, f"MEMORYHUB_LLM_{name}": value})


def test_blank_variables_count_as_not_set() -> None:
    environ = {"MEMORYHUB_EMBEDDING_PROVIDER": " ", "MEMORYHUB_LLM_PROVIDER": "", "ANTHROPIC_API_KEY": " "}

    assert EmbeddingConfig.from_env(environ).provider == "hashing"
    assert LLMConfig.from_env(environ).provider == "none"


def test_openai_embeddings_take_their_own_key_before_the_common_one() -> None:
    environ = {
        "MEMORYHUB_EMBEDDING_PROVIDER": "OpenAI",
        "MEMORYHUB_EMBEDDING_MODEL": "text-embedding-3-large",
        "MEMORYHUB_EMBEDDING_DIMENSION": "1024",
        "MEMORYHUB_EMBEDDING_API_KEY": "own",
        "OPENAI_API_KEY": "common",
    }

    config = EmbeddingConfig.from_env(environ)

    assert (config.provider, config.model, config.dimension) == ("openai", "text-embedding-3-large", 1024)
    assert config.api_key == "own"


def test_a_server_of_ones_own_needs_no_key() -> None:
    environ = {"MEMORYHUB_EMBEDDING_PROVIDER": "openai", "MEMORYHUB_EMBEDDING_BASE_URL": "http://127.0.0.1:11434/v1/"}

    config = EmbeddingConfig.from_env(environ)

    assert (config.base_url, config.api_key) == ("http://127.0.0.1:11434/v1", None)


@pytest.mark.parametrize(
    "environ",
    [
        AZURE,
        {
            "MEMORYHUB_EMBEDDING_PROVIDER": "azure",
            "OpenAIEmbeddingURI": "https://example.test",
            "OpenAIEmbeddingKey": "azure-key",
            "AZURE_OPENAI_EMBEDDING_DEPLOYMENT": "my-embeddings",
        },
        {
            "MEMORYHUB_EMBEDDING_PROVIDER": "azure",
            "OpenAIEmbeddingURI": "https://example.test/openai/deployments/my-embeddings/embeddings"
            "?api-version=2024-10-21",
            "OpenAIEmbeddingKey": "azure-key",
        },
    ],
)
def test_azure_is_configured_under_any_of_its_names(environ: dict[str, str]) -> None:
    config = EmbeddingConfig.from_env(environ)

    assert config.base_url == "https://example.test"
    assert (config.api_key, config.azure_deployment) == ("azure-key", "my-embeddings")
    assert config.azure_api_version == "2024-10-21"


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("", ("", None, None)),
        ("https://a.test/openai/", ("https://a.test", None, None)),
        ("https://gateway.test/team", ("https://gateway.test/team", None, None)),
        ("https://a.test/x/openai/deployments/my%20own/embeddings?api-version=1", ("https://a.test/x", "my own", "1")),
    ],
)
def test_azure_address_parts(address: str, parts: tuple[str, str | None, str | None]) -> None:
    assert azure_address_parts(address) == parts


WRONG_EMBEDDINGS = [
    ({"MEMORYHUB_EMBEDDING_PROVIDER": "word2vec"}, "MEMORYHUB_EMBEDDING_PROVIDER.*hashing, openai"),
    ({"MEMORYHUB_EMBEDDING_DIMENSION": "many"}, "MEMORYHUB_EMBEDDING_DIMENSION"),
    ({"MEMORYHUB_EMBEDDING_DIMENSION": "0"}, "from 1 to 16000"),
    ({"MEMORYHUB_EMBEDDING_DIMENSION": "16001"}, "from 1 to 16000"),
    ({"MEMORYHUB_EMBEDDING_DIMENSION": "٣"}, "MEMORYHUB_EMBEDDING_DIMENSION"),
    ({"MEMORYHUB_EMBEDDING_MODEL": "m"}, "MEMORYHUB_EMBEDDING_MODEL.*no models"),
    ({"MEMORYHUB_EMBEDDING_PROVIDER": "openai"}, "OPENAI_API_KEY"),
    ({"MEMORYHUB_EMBEDDING_PROVIDER": "azure"}, "AZURE_OPENAI_ENDPOINT.*AZURE_OPENAI_API_KEY.*DEPLOYMENT"),
    ({**AZURE, "AZURE_OPENAI_API_KEY": ""}, "AZURE_OPENAI_API_KEY"),
    ({**AZURE, "AZURE_OPENAI_ENDPOINT": "example.test"}, "AZURE_OPENAI_ENDPOINT is not an address"),
    ({"MEMORYHUB_EMBEDDING_PROVIDER": "openai", "OPENAI_API_KEY": "se cret"}, "OPENAI_API_KEY holds"),
    ({"MEMORYHUB_EMBEDDING_PROVIDER": "openai", "OPENAI_API_KEY": "secrét"}, "OPENAI_API_KEY holds"),
    *(
        ({"MEMORYHUB_EMBEDDING_PROVIDER": "openai", "MEMORYHUB_EMBEDDING_BASE_URL": url}, "BASE_URL is not")
        for url in ("localhost:11434", "ftp://a.test", "http://", "http://a.test:port", "http://[::1", "http://a b")
    ),
]


@pytest.mark.parametrize(("environ", "message"), WRONG_EMBEDDINGS)
def test_a_wrong_embedding_setting_is_named(environ: dict[str, str], message: str) -> None:
    with pytest.raises(EnvironmentProblem, match=message) as caught:
        EmbeddingConfig.from_env(environ)

    assert "se cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("environ", "provider", "key"),
    [
        ({"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o"}, "anthropic", "a"),
        ({"OPENAI_API_KEY": "o"}, "openai", "o"),
        ({"ANTHROPIC_API_KEY": "a", "MEMORYHUB_LLM_PROVIDER": "none"}, "none", None),
        ({"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o", "MEMORYHUB_LLM_PROVIDER": "openai"}, "openai", "o"),
        ({"ANTHROPIC_API_KEY": "a", "MEMORYHUB_LLM_API_KEY": "own"}, "anthropic", "own"),
        ({"MEMORYHUB_LLM_PROVIDER": "openai", "MEMORYHUB_LLM_BASE_URL": "http://a.test"}, "openai", None),
    ],
)
def test_the_language_model_is_chosen(environ: dict[str, str], provider: str, key: str | None) -> None:
    config = LLMConfig.from_env(environ)

    assert (config.provider, config.api_key) == (provider, key)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"MEMORYHUB_LLM_PROVIDER": "oracle"}, "MEMORYHUB_LLM_PROVIDER.*anthropic, openai, none"),
        ({"MEMORYHUB_LLM_PROVIDER": "anthropic", "OPENAI_API_KEY": "o"}, "ANTHROPIC_API_KEY"),
        ({"MEMORYHUB_LLM_BASE_URL": "http://a.test"}, "MEMORYHUB_LLM_PROVIDER"),
        ({"MEMORYHUB_LLM_API_KEY": "key"}, "MEMORYHUB_LLM_PROVIDER"),
        ({"OPENAI_API_KEY": "o", "MEMORYHUB_LLM_BASE_URL": "a.test"}, "MEMORYHUB_LLM_BASE_URL"),
    ],
)
def test_a_wrong_language_model_setting_is_named(environ: dict[str, str], message: str) -> None:
    with pytest.raises(EnvironmentProblem, match=message):
        LLMConfig.from_env(environ)


def test_every_operation_may_have_a_model_of_its_own() -> None:
    environ = {f"MEMORYHUB_LLM_MODEL_{op.name}": f"model-{op.value}" for op in Operation if op != Operation.CHAT}

    config = LLMConfig.from_env({"OPENAI_API_KEY": "o", "MEMORYHUB_LLM_MODEL": "common", **environ})

    assert config.model_for(Operation.CHAT) == "common"
    assert config.model_for(Operation.SUMMARIZE) == "model-summarize"
    assert len(config.models) == len(Operation) - 1


@pytest.mark.parametrize(
    ("config", "counted_as"),
    [
        (LLMConfig(), None),
        (LLMConfig("anthropic"), "claude"),
        (LLMConfig("openai"), "gpt-5"),
        (LLMConfig("openai", base_url="http://a.test"), None),
        (LLMConfig("anthropic", base_url="http://a.test"), None),
        (LLMConfig("openai", "llama3", base_url="http://a.test"), "llama3"),
    ],
)
def test_counted_as_names_the_model_or_its_family(config: LLMConfig, counted_as: str | None) -> None:
    assert config.counted_as() == counted_as


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
@pytest.mark.parametrize("base_url", [None, "http://a.test"])
@pytest.mark.parametrize("model", [None, "gpt-4o", "llama3"])
@pytest.mark.parametrize("operation", Operation)
def test_a_model_counts_alike_by_its_name_and_by_its_operation(
    provider: str, base_url: str | None, model: str | None, operation: Operation
) -> None:
    config = LLMConfig(provider, model, {Operation.JUDGE: "claude-x"}, base_url)
    asked_for = config.model_for(operation) or default_model(provider, operation)
    assert factors_for(config.known_as(asked_for)) == factors_for(config.counted_as(operation))


def test_no_key_shows_in_a_repr() -> None:
    assert "azure-key" not in repr(EmbeddingConfig.from_env(AZURE))
    assert "very-secret" not in repr(LLMConfig.from_env({"OPENAI_API_KEY": "very-secret"}))


@pytest.mark.parametrize("name", ["MEMORYHUB_EMBEDDING_BASE_URL", "MEMORYHUB_EMBEDDING_API_KEY"])
def test_an_embedders_address_or_key_without_its_provider_is_refused(name: str) -> None:
    with pytest.raises(EnvironmentProblem, match=f"{name} is set, but not for whom.*MEMORYHUB_EMBEDDING_PROVIDER"):
        EmbeddingConfig.from_env({name: "http://127.0.0.1:9/v1"})


@pytest.mark.parametrize(
    ("environ", "names"),
    [
        (
            {"MEMORYHUB_EMBEDDING_PROVIDER": "hashing", "MEMORYHUB_EMBEDDING_API_KEY": "k"},
            "MEMORYHUB_EMBEDDING_API_KEY",
        ),
        ({"AZURE_OPENAI_ENDPOINT": "https://a.test", "OpenAIEmbeddingKey": "k"}, "AZURE_OPENAI_ENDPOINT, OpenAIEmb"),
        ({"MEMORYHUB_EMBEDDING_PROVIDER": "openai", "OPENAI_API_KEY": "k", "OpenAIEmbeddingURI": "x"}, "OpenAIEmb"),
    ],
)
def test_settings_that_the_embedder_does_not_read_are_named(environ: dict[str, str], names: str) -> None:
    (sentence,) = ineffective_embedding_settings(environ)

    assert f"does not read {names}" in sentence


@pytest.mark.parametrize(
    ("environ", "names"),
    [
        ({"MEMORYHUB_LLM_MODEL": "small", "MEMORYHUB_LLM_MODEL_CHAT": "large"}, "_MODEL, MEMORYHUB_LLM_MODEL_CHAT"),
        ({"MEMORYHUB_LLM_PROVIDER": "none", "MEMORYHUB_LLM_BASE_URL": "http://127.0.0.1:9"}, "MEMORYHUB_LLM_BASE_URL"),
    ],
)
def test_settings_of_a_language_model_that_nobody_is_asked_for_are_named(environ: dict[str, str], names: str) -> None:
    (sentence,) = ineffective_llm_settings(environ)

    assert f"{names}. Set MEMORYHUB_LLM_PROVIDER" in sentence


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OPENAI_API_KEY": "k", "MEMORYHUB_LLM_MODEL": "small"},
        {"MEMORYHUB_LLM_PROVIDER": "none", "MEMORYHUB_LLM_MODEL": "claude-sonnet"},
        {"MEMORYHUB_EMBEDDING_PROVIDER": "openai", "MEMORYHUB_EMBEDDING_BASE_URL": "http://127.0.0.1:9"},
        AZURE,
    ],
)
def test_settings_that_are_read_are_not_complained_of(environ: dict[str, str]) -> None:
    assert ineffective_embedding_settings(environ) + ineffective_llm_settings(environ) == []
