"""Which messages say nothing in words, as PostgreSQL tells it: whose line would be empty, as a test holds.

Rows are told apart where they lie, so that a session which only gained pictures is never read for its summary.
"""

from typing import Final

_SPACES: Final = r"\u0009-\u000d\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_UNSEEN: Final = (
    r"\u0001-\u0008\u000e-\u001b\u007f-\u0084\u0086-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e"
    r"\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
IN_WORDS: Final = f"[^{_SPACES}{_UNSEEN}]"
"""A character that somebody sees. Spelt out: what else counts as a space depends on the database's locale."""
