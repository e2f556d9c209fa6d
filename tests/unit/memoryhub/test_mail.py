"""The mail server of the environment."""

import pytest

from memoryhub.env import EnvironmentProblem
from memoryhub.mail import MailConfig


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("", ("", 0, "", "", "smtp", "")),
        ("smtp://mail.example.org", ("mail.example.org", 25, "", "", "smtp", "memoryhub@mail.example.org")),
        (
            "smtps://u:p%40ss@mail.example.org",
            ("mail.example.org", 465, "u", "p@ss", "smtps", "memoryhub@mail.example.org"),
        ),
        ("smtp+tls://a%40b.org:p@[::1]:2525", ("::1", 2525, "a@b.org", "p", "smtp+tls", "a@b.org")),
    ],
)
def test_an_address_is_read(url: str, expected: tuple[object, ...]) -> None:
    config = MailConfig.from_env({"MEMORYHUB_EMAIL_URL": url})
    found = (config.host, config.port, config.user, config.password, config.scheme, config.sender)
    assert found == expected and "p@ss" not in repr(config)


@pytest.mark.parametrize(
    "url",
    ["mail.example.org", "https://mail.example.org", "smtp://", "smtp://h:99999999", "smtp://h/x", "smtp://h?tls=1"],
)
def test_a_wrong_address_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(EnvironmentProblem, match="MEMORYHUB_EMAIL_URL must begin with"):
        MailConfig.from_env({"MEMORYHUB_EMAIL_URL": url})


@pytest.mark.parametrize("sender", ["nobody", "a@b.org\nBcc: c@d.org"])
def test_a_wrong_sender_is_refused(sender: str) -> None:
    with pytest.raises(EnvironmentProblem, match="MEMORYHUB_EMAIL_FROM"):
        MailConfig.from_env({"MEMORYHUB_EMAIL_URL": "smtp://h", "MEMORYHUB_EMAIL_FROM": sender})
