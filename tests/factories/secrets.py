"""Made-up secrets of the vendors' documented shapes, and harmless texts with numbers, hashes, code and Japanese."""

import base64
import json
import string
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Final
from uuid import UUID

ROOT: Final = Path(__file__).parents[2]
BASE62: Final = string.ascii_letters + string.digits
URL64: Final = BASE62 + "_-"
HEX: Final = "0123456789abcdef"
UPPER: Final = string.ascii_uppercase + string.digits

Made = tuple[str, str]
"""A text with a secret, and the secret."""


def _random(random: Random, alphabet: str, length: int) -> str:
    """Return random characters, at least two of them digits, as nearly all such keys have."""
    text = random.choices(alphabet, k=length)
    for place in random.sample(range(length), 2):
        text[place] = random.choice(string.digits)
    return "".join(text)


def _key(prefix: str, alphabet: str, length: int) -> Callable[[Random], Made]:
    def made(random: Random) -> Made:
        secret = f"{prefix}{_random(random, alphabet, length)}"
        return random.choice(["Use {} for it.", "キーは{}です。", "KEY: {}", "key={}\nthanks", '"{}"']).format(
            secret
        ), secret

    return made


def _in(template: str, alphabet: str, length: int) -> Callable[[Random], Made]:
    def made(random: Random) -> Made:
        secret = _random(random, alphabet, length)
        return template.format(secret), secret

    return made


def _pem(random: Random) -> Made:
    lines = [_random(random, BASE62 + "+/", 64) for _ in range(6)]
    kind = random.choice(["RSA ", "EC ", "", "OPENSSH "])
    return "\n".join([f"-----BEGIN {kind}PRIVATE KEY-----", *lines, f"-----END {kind}PRIVATE KEY-----"]), lines[2]


def _jwt(random: Random) -> Made:
    head, claims = ({"alg": "HS256", "typ": "JWT"}, {"sub": _random(random, BASE62, 12), "iat": 1_516_239_022})
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (head, claims)]
    token = ".".join([*parts, _random(random, URL64, 43)])
    return f"It answers with {token} then.", token


def _discord(random: Random) -> Made:
    token = f"M{_random(random, BASE62, 23)}.{_random(random, URL64, 6)}.{_random(random, URL64, 38)}"
    return f"client.login('{token}')", token


def _basic(random: Random) -> Made:
    secret = base64.b64encode(f"me:{_random(random, BASE62, 12)}".encode()).decode()
    return f"curl -H 'Authorization: Basic {secret}' https://api.example", secret


def _telegram(random: Random) -> Made:
    token = f"{random.randrange(10**9, 10**10)}:AA{_random(random, URL64, 33)}"
    return f"bot {token}", token


SECRETS: Final[dict[str, Callable[[Random], Made]]] = {
    "openai": _key("sk-proj-", URL64, 120),
    "openai old": _key("sk-", BASE62, 48),
    "openrouter": _key("sk-or-v1-", HEX, 64),
    "anthropic": _key("sk-ant-api03-", URL64, 93),
    "google": _key("AIza", URL64, 35),
    "google oauth": _key("GOCSPX-", URL64, 28),
    "hugging face": _key("hf_", BASE62, 34),
    "groq": _key("gsk_", BASE62, 52),
    "replicate": _key("r8_", BASE62, 37),
    "xai": _key("xai-", BASE62, 80),
    "perplexity": _key("pplx-", BASE62, 48),
    "stripe": _key("sk_live_", BASE62, 24),
    "stripe restricted": _key("rk_live_", BASE62, 99),
    "stripe webhook": _key("whsec_", BASE62, 32),
    "sendgrid": lambda random: _key(f"SG.{_random(random, URL64, 22)}.", URL64, 43)(random),
    "twilio": _key("SK", HEX, 32),
    "mailgun": _key("key-", HEX, 32),
    "mailchimp": lambda random: (f"mc {(key := _random(random, HEX, 32) + '-us21')} ok", key),
    "slack bot": lambda random: _key(f"xoxb-{random.randrange(10**11)}-", BASE62, 24)(random),
    "slack webhook": _in("https://hooks.slack.com/services/T0AB12CD3/B0AB12CD3/{}", BASE62, 24),
    "discord": _discord,
    "discord webhook": _in("https://discord.com/api/webhooks/123456789012345678/{}", URL64, 68),
    "telegram": _telegram,
    "github": _key("ghp_", BASE62, 36),
    "github app": _key("gho_", BASE62, 36),
    "github fine": _key("github_pat_", BASE62 + "_", 82),
    "gitlab": _key("glpat-", URL64, 20),
    "npm": _key("npm_", BASE62, 36),
    "pypi": _key("pypi-AgEIcHlwaS5vcmc", URL64, 120),
    "digitalocean": _key("dop_v1_", HEX, 64),
    "shopify": _key("shpat_", HEX, 32),
    "square": _key("sq0atp-", URL64, 22),
    "linear": _key("lin_api_", BASE62, 40),
    "notion": _key("ntn_", BASE62, 46),
    "databricks": _key("dapi", HEX, 32),
    "vault": _key("hvs.", URL64, 95),
    "postman": lambda random: _key(f"PMAK-{_random(random, HEX, 24)}-", HEX, 34)(random),
    "memoryhub": lambda random: _key(f"mh_{_random(random, HEX, 10)}_", URL64, 43)(random),
    "aws": _key("AKIA", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16),
    "aws session": _key("ASIA", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16),
    "aws secret": _in("aws_secret_access_key = {}", BASE62 + "+/", 40),
    "azure storage": _in(
        "DefaultEndpointsProtocol=https;AccountName=tea;AccountKey={}==;EndpointSuffix=core.windows.net", BASE62, 86
    ),
    "azure sas": _in("https://tea.blob.core.windows.net/c?sv=2024-11-04&sig={}%3D&se=2026", BASE62, 43),
    "private key": _pem,
    "json web token": _jwt,
    "bearer": _in("Authorization: Bearer {}", URL64, 40),
    "bearer alone": _in("it sends Bearer {} each time", URL64, 40),
    "basic": _basic,
    "url password": _in("postgres://admin:{}@db.example:5432/shop", BASE62, 12),
    "url token": _in("https://api.example/v1?access_token={}&page=2", BASE62, 32),
    "env token": _in("export SHOP_API_TOKEN={}", BASE62, 24),
    "env password": _in("DB_PASSWORD={}\n", BASE62, 12),
    "json password": _in('{{"user": "me", "password": "{}"}}', BASE62, 12),
    "yaml secret": _in("client_secret: {}", BASE62, 32),
    "japanese password": _in("パスワード：{}", BASE62, 12),
}  # fmt: skip
"""Makers by kind."""


def made_secrets(number: int, seed: int = 45) -> list[tuple[str, str, str]]:
    """Return so many kinds, texts and secrets, of all kinds in turn; equal for equal seeds."""
    random, kinds = Random(seed), [*SECRETS]
    return [(kind, *SECRETS[kind](random)) for kind in (kinds[n % len(kinds)] for n in range(number))]


def harmless_texts(number: int, seed: int = 45) -> Iterator[str]:
    """Yield so many texts: a third made up of numbers and hashes, the rest paragraphs of this repository."""
    random = Random(seed)
    yield from (_harmless(random) for _ in range(number // 3))
    files = [
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("[cms]*/**/*.py"),
        ROOT / "README.ja.md",
        *ROOT.glob("**/ja/**/*.po"),
    ]
    paragraphs = [part for file in sorted(files) for part in file.read_text().split("\n\n") if len(part) > 20]
    # An address with a password is none of them, also in an example.
    paragraphs = [part for part in paragraphs if ":password@" not in part and ":secret@" not in part]
    yield from random.sample(paragraphs, number - number // 3)


def _harmless(random: Random) -> str:
    uuid = UUID(int=random.getrandbits(128), version=4)
    sha = _random(random, HEX, 40)
    digits = _random(random, string.digits, 16)
    return random.choice(
        [
            f"commit {sha}\nAuthor: Hiroki <hiroki@tea.example>",
            f"The session {uuid} has ended; see https://hub.example/sessions/{uuid}?page=2&sort=created_at.",
            f"sha256:{_random(random, HEX, 64)} is the image's digest.",
            f"注文番号{digits}の商品は{random.randrange(1, 29)}日に届きます。電話は03-{digits[:4]}-{digits[4:8]}です。",
            f"Order no. {digits}, phone +81 90 {digits[:4]} {digits[4:8]}, postcode 150-{digits[:4]}.",
            "data:image/png;base64," + base64.b64encode(random.randbytes(400)).decode(),
            f"user_id = {digits}\ncache_key = 'user:{uuid}'\nmax_tokens: {random.randrange(10_000)}",
            f"def test_{_random(random, string.ascii_lowercase, 8)}():\n    assert digest('{sha}') == {digits}",
            f"The password must have {random.randrange(8, 20)} characters; tokens expire after {random.randrange(9)} days.",
            "パスワードは毎月変えてください。忘れた場合は管理者に連絡してください。",
            f"ETag: \"{sha}\"\nIdempotency-Key: {uuid}\nX-Request-Id: {_random(random, BASE62, 22)}",
            f"https://shop.example/items/{_random(random, BASE62, 11)}?utm_source=mail&utm_id={digits}#top",
            f"pip install tea=={random.randrange(9)}.2.1 --hash=sha256:{_random(random, HEX, 64)}",
            json.dumps({"id": str(uuid), "next": None, "total_tokens": int(digits[:5]), "author": "かな"}, ensure_ascii=False),
            f"ISBN 978-{digits[:10]}, IBAN-like DE{digits} and a tracking number 1Z{_random(random, UPPER, 16)}.",
        ]
    )  # fmt: skip
