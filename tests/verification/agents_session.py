"""The OpenAI Agents SDK's own tests of its SQLite session, run against ours.

They are in the source distribution of `openai-agents`; `pytest-asyncio` must be importable by them:

    OPENAI_AGENTS=…/openai_agents-0.24.0 pytest tests/verification/agents_session.py -s

What is about SQLite itself (locks, corrupt rows, connections, transactions) does not apply.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.integration.clients.conftest import new_key
from tests.serving import serving

PLUGIN = """
import os, agents
from memoryhub_client import Memoryhub
from memoryhub_client.agents_session import MemoryhubSession

hub = Memoryhub(os.environ["MEMORYHUB_URL"], os.environ["MEMORYHUB_KEY"], agent_id="kana", user_id="hiroki")

class OurSession(MemoryhubSession):
    def __init__(self, session_id, db_path=":memory:", **options):
        super().__init__(f"{db_path} {session_id}", hub, **options)
        self.session_id = session_id

    def close(self):
        pass

agents.SQLiteSession = OurSession
"""
OF_SQLITE = (
    "close or thread or lock or corrupt or rollback or rolls_back or rejects_empty or post_commit or releases or quarantined"
    " or cancellation"
)


def test_sdks_own_tests(transactional_db: None, tmp_path: Path) -> None:
    (tmp_path / "ours.py").write_text(PLUGIN)
    source = Path(__file__).resolve().parents[2] / "clients" / "python" / "src"
    paths = [str(tmp_path), str(source), *sys.path, os.environ.get("PYTHONPATH", "")]
    with serving() as web:
        environment = {
            **os.environ,
            "PYTHONPATH": ":".join(filter(None, paths)),
            "MEMORYHUB_URL": web.url,
            "MEMORYHUB_KEY": new_key(),
            "OPENAI_API_KEY": "none",
        }
        environment.pop("DJANGO_SETTINGS_MODULE", None)
        files = ["tests/memory/test_session.py", "tests/memory/test_session_limit.py"]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "ours", "-p", "no:django", "-k", f"not ({OF_SQLITE})"]
        done = subprocess.run([*command, *files], cwd=os.environ["OPENAI_AGENTS"], env=environment)
    assert done.returncode == 0
