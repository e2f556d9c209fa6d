"""What becomes of a question to a model that was answered with a refusal, or with something that cannot be used.

Half as much is asked for, down to the one text that spoils the others. That one is passed by where it is the text's
fault: a model refuses its content, or whatever it answers about it cannot be used. A request that is refused for its
form is the fault of a setting: it fails where people see it, and nothing is passed by.
"""

from typing import Final

from memoryhub.providers.errors import BadAnswer, ProviderRejected
from memoryhub.providers.patience import is_patient

OF_CONTENT: Final = "refused"
"""The code of a refusal that is about what was said; any other is about the request's form."""


def must_fail(error: ProviderRejected | BadAnswer, *, spoilt: int, is_one: bool) -> bool:
    """Say whether an error ends the attempt; otherwise half is asked for, and the last one is passed by."""
    if isinstance(error, BadAnswer):
        return not error.permanent and is_patient(spoilt)
    return is_one and error.code != OF_CONTENT
