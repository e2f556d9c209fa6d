"""What a client is made of: an address and a key."""

import pytest

from memoryhub_client import AsyncMemoryhub, Memoryhub


@pytest.mark.parametrize("made", [Memoryhub, AsyncMemoryhub])
@pytest.mark.parametrize(
    ("url", "key", "why"),
    [
        ("", "mh_1", "must begin with http"),
        ("127.0.0.1:8000", "mh_1", "must begin with http"),
        ("http://127.0.0.1:8000", "", "API key"),
        ("http://127.0.0.1:8000", "mh_1\n", "API key"),
        ("http://127.0.0.1:8000", "mh_鍵", "API key"),
    ],
)
def test_an_address_or_a_key_that_can_be_none_is_refused_before_anything_is_sent(
    made: type[Memoryhub | AsyncMemoryhub], url: str, key: str, why: str
) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        made(url, key)
    assert "鍵" not in str(refused.value)
