"""The contract of all language models, held against the fake of both vendors."""

import re

import pytest

from memoryhub.llm.config import LLMConfig
from tests.fakes.llm_server import Asked, LLMServer, Reply
from tests.verification.contract import LLMContract, Vendor


def like_a_model(asked: Asked) -> Reply:
    """Answer the contract's questions as a live service would."""
    if asked.model == "no-such-model":
        return Reply(failure="404")
    if asked.max_tokens == 20:
        return Reply("Once upon a time there was", failure="max_tokens")
    if asked.schema is not None:
        return Reply(data={"facts": [{"text": "Hiroki lives in Kyoto.", "certainty": 0.9, "place": "Kyoto"}]})
    if named := re.search(r"called (\w+)\.", asked.text):
        return Reply(f"It is called {named[1]}.")
    return Reply("東京です。" if "首都" in asked.text else "The capital is Tokyo, of course.")


@pytest.fixture(params=["anthropic", "openai"])
def vendor(request: pytest.FixtureRequest, llm_server: LLMServer) -> Vendor:
    """One of the vendors, answered for by the fake."""
    llm_server.answer(like_a_model)
    address = llm_server.url if request.param == "anthropic" else llm_server.base_url
    return Vendor(LLMConfig(request.param, base_url=address, api_key=llm_server.key))


class TestFake(LLMContract):
    """The contract, as the fake keeps it; `tests/verification/live_llm.py` asks the services themselves."""
