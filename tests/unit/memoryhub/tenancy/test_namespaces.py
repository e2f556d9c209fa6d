"""Namespaces and retrieval configurations."""

from typing import Any

import pytest

from memoryhub.tenancy.namespaces import (
    DEFAULT_RETRIEVAL,
    NamespaceError,
    NamespaceQuery,
    expand_namespace,
    expand_prefix,
    namespace_owner,
    namespace_queries,
)
from strength.domain.memories import Kind


@pytest.mark.parametrize(
    ("user", "owner"), [("", "kana"), ("hiroki", "hiroki"), ("a/b c", "a%2Fb%20c"), ("宏", "%E5%AE%8F")]
)
def test_placeholder_stands_for_the_user_else_the_agent(user: str, owner: str) -> None:
    assert namespace_owner("kana", user) == owner
    assert expand_namespace("/facts/{actorId}/", agent_id="kana", user_id=user) == f"/facts/{owner}/"


@pytest.mark.parametrize("namespace", ["", "/", "facts/x/", "/facts/x", "/facts//x/", "/fa cts/", "/x/\n"])
def test_namespace_without_both_slashes_is_refused(namespace: str) -> None:
    with pytest.raises(NamespaceError, match="starts and ends with a slash") as caught:
        expand_namespace(namespace, agent_id="kana", user_id="")
    assert caught.value.field == "namespace"
    assert "2500" not in str(caught.value), "an interface takes less, and says so"


@pytest.mark.parametrize("namespace", ["/notes/{sessionId}/", "/facts/*/", "/{actorId}*/", "/{}/"])
def test_other_placeholders_and_wildcards_are_refused(namespace: str) -> None:
    for expand in (expand_namespace, expand_prefix):
        with pytest.raises(NamespaceError, match="has no meaning here"):
            expand(namespace, agent_id="kana", user_id="hiroki")


def test_one_slash_is_all_of_an_actor_as_a_prefix_alone() -> None:
    assert expand_prefix("/", agent_id="kana", user_id="") == "/"
    assert expand_prefix("/facts/{actorId}/", agent_id="kana", user_id="") == "/facts/kana/"
    assert namespace_queries({"/": {}}, agent_id="kana", user_id="") == [NamespaceQuery("/", 10, 0.0)]


@pytest.mark.parametrize("namespace", ["/" + "x" * 2500 + "/", "/" + "{actorId}" * 9 + "/"])
def test_length_is_that_of_the_namespace_filled_in(namespace: str) -> None:
    with pytest.raises(NamespaceError, match=r"at most 2500 characters once \{actorId\} is filled in") as caught:
        expand_namespace(namespace, agent_id="kana", user_id="x" * 300)
    assert caught.value.field == "namespace"


def test_default_retrieval_reaches_every_kind() -> None:
    queries = namespace_queries(DEFAULT_RETRIEVAL, agent_id="kana", user_id="hiroki")
    assert {query.prefix: query.top_k for query in queries} == {
        "/preferences/hiroki/": 5,
        "/facts/hiroki/": 10,
        "/summaries/hiroki/": 3,
        "/episodes/hiroki/": 3,
        "/reflections/hiroki/": 3,
        "/learnings/hiroki/": 3,
        "/decisions/hiroki/": 3,
        "/notes/hiroki/": 5,
    }
    assert {(query.relevance_score, query.order) for query in queries} == {(0.3, "relevance")}
    assert len(queries) == len(Kind)


def test_retrieval_by_strength_has_no_floor() -> None:
    config = {"/x/": {"order": "strength", "relevance_score": 0}}
    assert namespace_queries(config, agent_id="kana", user_id="") == [NamespaceQuery("/x/", 10, 0.0, "strength")]


def test_retrieval_fills_in_what_is_left_out() -> None:
    assert namespace_queries({"/x/": {}}, agent_id="kana", user_id="") == [NamespaceQuery("/x/", 10, 0.0)]


@pytest.mark.parametrize(
    "config",
    [
        None, [], {}, {f"/n{number}/": {} for number in range(21)}, {"/facts/x": {}}, {"/facts/x/": 3},
        {"/facts/x/": {"topk": 3}}, {"/facts/x/": {"top_k": 0}}, {"/facts/x/": {"top_k": "3"}},
        {"/facts/x/": {"order": "age"}}, {"/facts/x/": {"order": "strength", "relevance_score": 0.2}},
        {"/facts/x/": {"relevance_score": 1.5}}, {"/facts/x/": {"relevance_score": None}},
    ],
)  # fmt: skip
def test_retrieval_that_cannot_be_used_is_refused(config: Any) -> None:
    with pytest.raises(NamespaceError) as caught:
        namespace_queries(config, agent_id="kana", user_id="", field="retrieval_config")
    assert caught.value.field == "retrieval_config"
