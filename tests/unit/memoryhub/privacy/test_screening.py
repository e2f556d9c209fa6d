"""Secrets are recognised by their shapes and taken out of texts; harmless texts stay as they are."""

import json
from random import Random

import pytest

from memoryhub.privacy.screening import screen, screen_json
from tests.factories.secrets import SECRETS, harmless_texts, made_secrets

MADE = made_secrets(4 * len(SECRETS))


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_of_each_kind_is_removed(kind: str) -> None:
    for made, text, secret in MADE:
        if made == kind:
            screened = screen(text)
            assert secret not in screened.text, text
            assert "[secret removed: " in screened.text
            assert sum(screened.removed.values()) == 1, screened.removed


def test_what_is_screened_is_screened_to_itself() -> None:
    for _kind, text, _secret in MADE:
        screened = screen(text)
        assert screen(screened.text).text == screened.text
        assert not screen(screened.text).removed


def test_secrets_that_are_glued_together_are_removed() -> None:
    random, glue = Random(11), ["", "=", ":", "password=", "?key=", "://a:", "@", "Bearer ", "は", "token] = "]
    for _ in range(1_000):
        text = "".join(random.choice([random.choice(glue), random.choice(MADE)[1]]) for _ in range(5))
        once = screen(text).text
        assert screen(once).text == once, text


def test_several_secrets_among_other_words_are_removed() -> None:
    random = Random(7)
    for _ in range(100):
        chosen = random.sample(MADE, 5)
        text = "\n".join(f"Note {n}: tea with {text}" for n, (_kind, text, _secret) in enumerate(chosen))
        screened = screen(text).text
        assert not [secret for _kind, _text, secret in chosen if secret in screened]
        assert screened.count("tea with") == 5


def test_of_3000_harmless_texts_at_most_3_are_changed() -> None:
    texts = list(harmless_texts(3_000))
    changed = [text for text in texts if screen(text).text != text]
    assert len(texts) == 3_000
    assert len(changed) <= 3, changed


@pytest.mark.parametrize(
    "value",
    [
        {"name": "DB_PASSWORD", "value": "hunter2-blue9"},
        [{"key": "SMTP_PASSWORD", "value": "hunter2-blue9", "type": "secret"}],
        {"password": ["hunter2-blue9"]},
        {"headers": {"Authorization": ["Basic hunter2-blue9"]}},
    ],
)
def test_a_secret_in_lists_and_members_of_json_is_removed(value: object) -> None:
    written = json.dumps(value)
    screened = [json.dumps(screen_json(value, lambda text: screen(text).text)), screen(written).text]
    screened.append(screen(json.dumps(written)).text)
    assert all("hunter2" not in each and "[secret removed: " in each for each in screened), screened
    harmless = {"name": "city", "value": "hunter2-blue9"}
    assert screen_json(harmless, lambda text: screen(text).text) == harmless


def test_a_secret_among_the_variables_of_a_container_is_removed() -> None:
    text = "env:\n  - name: DB_PASSWORD\n    value: hunter2-blue9\n  - name: TZ\n    value: Asia/Tokyo-9"
    assert screen(text).text == text.replace("hunter2-blue9", "[secret removed: password]")


@pytest.mark.parametrize(
    "text",
    [
        "The deploy password is hunter2-blue.",
        "my password for the router is now Sup3rTea!",
        "The PIN is 4821, don't forget.",
        "Wi-Fiのパスワードは「tea2026green」です。",
        "暗証番号は4821です。",
        "パスコード：998877",
    ],
)
def test_a_password_in_prose_is_kept_and_needs_a_review(text: str) -> None:
    screened = screen(text)
    assert screened.is_doubtful
    assert screened.text == text


@pytest.mark.parametrize(
    "text",
    [
        "I forgot my password and the reset link is broken.",
        "Is the password at least 12 characters long?",
        "The password is 12-character long.",
        "password: string",
        "`password` is read from the settings.",
        "Her secret is that she loves green tea.",
        "パスワードは毎月変えてください。",
        "パスワードを忘れました。",
        "if password1 != password2:",
        "We spent 3 hours pinning a row; the pin is gone.",
    ],
)
def test_talk_about_passwords_needs_none(text: str) -> None:
    assert not screen(text).is_doubtful
    assert screen(text).text == text


@pytest.mark.parametrize(
    "text",
    [
        "API_KEY=your-api-key-here", "PASSWORD=changeme123", "token = os.environ['TOKEN_2']", "password: ${DB_PASS_1}",
        "secret = settings.SECRET_2", "postgres://$USER:$PASSWORD@db/shop", "Authorization: Bearer <token>",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "AKIAXXXXXXXXXXXXXXXX", "hf_requiredCharacteristicTypesForDisplayMetadata",
        "credentialsId: 'ff083f76-7804-4ef1-80e4-fe975bb9141b'", "https://indieweb.org/images/2018-250-xoxo-indieweb-1.jpg",
        "password=get_password2(user)", "page_token=CAEQAhgDIgYIARoCCAE1", "sk-learn-is-a-great-library-2024",
        "risk-assessment-of-the-2024-summer-season", "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQ\n-----END PUBLIC KEY-----",
    ],
)  # fmt: skip
def test_placeholders_and_names_are_no_secrets(text: str) -> None:
    assert screen(text).text == text


@pytest.mark.parametrize(
    "text",
    [
        "my key is sk-abcdefghijklmnopqrstuvwxyz123456",
        "aws_session_token=IQoJb3JpZ2luX2VjEJr//////////wEaCXVzLWVhc3QtMSJH",
    ],
)
def test_what_looks_little_random_is_a_secret_by_its_name_or_length(text: str) -> None:
    assert screen(text).removed


def test_a_private_key_is_removed_whole_also_where_its_end_is_cut_off() -> None:
    lines = ["Ab3cD4eF5" * 7 + "/" for _ in range(9)]
    for end in ("-----END RSA PRIVATE KEY-----\nThen tea.", ""):
        text = "\n".join(["Here:", "-----BEGIN RSA PRIVATE KEY-----", *lines, end])
        assert screen(text).text == f"Here:\n[secret removed: private key]\n{'Then tea.' if end else ''}"
    escaped = json.dumps({"key": "\n".join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----"])})
    assert "Ab3" not in screen(escaped).text


def test_only_the_password_of_a_url_is_removed() -> None:
    text = "postgres://admin:pw@db.example:5432/shop"
    assert screen(text).text == "postgres://admin:[secret removed: password]@db.example:5432/shop"


def test_texts_and_keys_of_json_are_screened_and_a_name_counts_for_its_value() -> None:
    key = MADE[0][2]
    value = {"note": f"It is {key}", key: [1, {"deep": key}], "password": "hunter2x", "tokens": 12, "token": "plain"}
    screened = screen_json(value, lambda text: screen(text).text)
    assert key not in json.dumps(screened)
    assert screened["password"] == "[secret removed: password]"
    assert screened["tokens"] == 12
    assert screened["token"] == "plain"


def test_counts_name_the_kinds() -> None:
    text = "ghp_" + "a1B2c3" * 6 + " and AKIAQ2W3E4R5T6Y7U2I3, AKIAQ2W3E4R5T6Y7U2I4"
    assert screen(text).removed == {"GitHub token": 1, "AWS access key": 2}
