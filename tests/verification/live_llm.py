"""The contract against the live services: opt-in, never in CI, since it needs keys and costs a cent.

Its name keeps it out of the normal run; name it to run it:

    ANTHROPIC_API_KEY=… OPENAI_API_KEY=… pytest tests/verification/live_llm.py --force-enable-socket -n 0

Every vendor whose key is set is asked. `MEMORYHUB_LLM_MODEL` and `MEMORYHUB_LLM_BASE_URL` hold for a run of one vendor.
"""

import os

import pytest

from memoryhub.llm.config import LLMConfig
from tests.verification.contract import LLMContract, Vendor

KEYS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
VENDORS = [vendor for vendor, key in KEYS.items() if os.environ.get(key)]

if not VENDORS:
    raise pytest.UsageError(f"Set {' or '.join(KEYS.values())}: without a key there is nothing to verify.")


@pytest.fixture(params=VENDORS)
def vendor(request: pytest.FixtureRequest) -> Vendor:
    """One of the vendors whose key is set."""
    return Vendor(LLMConfig.from_env({**os.environ, "MEMORYHUB_LLM_PROVIDER": request.param}))


class TestLive(LLMContract):
    """The contract, as the services of today keep it."""
