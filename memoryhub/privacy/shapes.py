"""The shapes of secrets, by kind: a table of vendors' prefixes, and patterns of what has none. Pure.

A shape is looked for only where one of its `marks` is in the text, which is found a hundred times as fast as a pattern
is matched. Every pattern starts with a mark or a short set of characters, and takes linear time. Boundaries are ASCII:
Japanese text has no spaces around a key. The vendors' documentation and the rules of gitleaks (MIT) are the source.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

BASE62: Final = "A-Za-z0-9"
BASE64: Final = r"A-Za-z0-9+/"
URL64: Final = r"A-Za-z0-9_\-"
HEX: Final = "a-f0-9"

VALUE: Final = "value"
"""The group that holds the secret, if it is a part of the match."""


def switches(text: str) -> int:
    """Return how often neighbours in a text are of different classes: small letters, capitals, digits."""
    classes = [0 if each.islower() else 1 if each.isupper() else 2 for each in text if each.isalnum()]
    return sum(one != other for one, other in pairwise(classes))


def is_random(text: str) -> bool:
    """Return whether a text of some length looks random: digits among letters, with many changes between them."""
    digits = sum(each.isdigit() for each in text)
    most_changes = max(4, len(text) // 6) if digits >= 2 else max(8, len(text) // 4)
    return 0 < digits < len(text) and switches(text) >= most_changes


def is_unbroken(text: str) -> bool:
    """Return whether a text has a part of 20 letters and digits, which words joined by hyphens have not."""
    return has_digit(text) and any(len(part) >= 20 for part in text.replace("_", "-").split("-"))


def is_mixed(text: str) -> bool:
    """Return whether a text has as many changes between small letters and capitals as no name has."""
    return switches(text) >= len(text) // 3


def has_digit(text: str) -> bool:
    return any(each.isdigit() for each in text)


@dataclass(frozen=True)
class Shape:
    """A kind of secret: where to look, what it looks like, and a check of what was found."""

    kind: str
    marks: tuple[str, ...]
    pattern: re.Pattern[str] = field(repr=False)
    check: Callable[[str], bool] = bool
    begins: bool = False
    """Whether it begins with its mark, as a word does."""


def _after(prefix: str) -> str:
    """Return a pattern of a prefix with nothing of a longer word before it; the prefix first, which is found fast."""
    literal = re.escape(prefix)
    return f"{literal}(?<![{BASE62}]{literal})"


def _prefixed(
    kind: str, prefixes: str, characters: str, least: int, check: Callable[[str], bool] = bool, most: int | None = None
) -> Iterator[Shape]:
    """Yield the shapes of keys with one of some prefixes before so many random characters.

    Each has a pattern that begins with its prefix, which is searched faster than one of several.
    """
    tail = f"[{characters}]{{{least},{most or ''}}}+" + (f"(?![{characters}])" if most else "")
    for prefix in prefixes.split():
        yield Shape(kind, (prefix,), re.compile(_after(prefix) + tail), check, begins=True)


def _shaped(kind: str, marks: str, pattern: str, check: Callable[[str], bool] = bool) -> Shape:
    return Shape(kind, tuple(marks.split()), re.compile(pattern), check, begins=pattern.startswith(_after(marks)))


_PEM_NAME: Final = r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
_PEM_END: Final = r"-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
_PEM_WHOLE: Final = rf"(?:[^-]|-(?!----))*+{_PEM_END}"
_PEM_CUT: Final = rf"(?:(?:\s|\\[rnt]|[\"'>|#*])*+[{BASE64}]{{20,}}+={{0,2}})++(?:\s*+[{BASE64}]{{1,19}}={{1,2}})?"
_NOT_A_VALUE: Final = r"(?![$<{*%\[])"

SHAPES: Final[tuple[Shape, ...]] = (
    _shaped("private key", "PRIVATE KEY", f"{_PEM_NAME}(?:{_PEM_WHOLE}|{_PEM_CUT})"),
    *_prefixed("age key", "AGE-SECRET-KEY-1", "A-Z0-9", 50),
    # Models
    *_prefixed("Anthropic key", "sk-ant-", URL64, 20, has_digit),
    *_prefixed("OpenAI key", "sk-", URL64, 20, lambda key: is_random(key) or is_unbroken(key)),
    *_prefixed("Google key", "AIza GOCSPX-", URL64, 28),
    *_prefixed("Google token", "ya29.", rf"{URL64}.", 30),
    *_prefixed("Hugging Face token", "hf_ api_org_", BASE62, 30, is_mixed),
    *_prefixed("Groq key", "gsk_", BASE62, 40),
    *_prefixed("Replicate token", "r8_", BASE62, 30),
    *_prefixed("xAI key", "xai-", BASE62, 40),
    *_prefixed("Perplexity key", "pplx-", BASE62, 40),
    *_prefixed("NVIDIA key", "nvapi-", URL64, 40),
    *_prefixed("Cerebras key", "csk-", BASE62, 40),
    *_prefixed("LangSmith key", "lsv2_pt_ lsv2_sk_", rf"{BASE62}_", 32),
    *_prefixed("Tavily key", "tvly-", URL64, 20, is_random),
    *_prefixed("Pinecone key", "pcsk_", rf"{BASE62}_", 40),
    *_prefixed("ElevenLabs key", "sk_", HEX, 40),
    # Code and packages
    *_prefixed("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", BASE62, 30),
    *_prefixed("GitHub token", "github_pat_", rf"{BASE62}_", 50),
    *_prefixed(
        "GitLab token",
        "glpat- GR1348941 glrt- gldt- glptt- glcbt- glft- glsoat- gloas- glagent- glimt- glffct-",
        rf"{URL64}.", 20,
    ),
    *_prefixed("npm token", "npm_", BASE62, 36),
    *_prefixed("PyPI token", "pypi-AgE", URL64, 40),
    *_prefixed("RubyGems key", "rubygems_", HEX, 48),
    *_prefixed("Docker token", "dckr_pat_ dckr_oat_", URL64, 24),
    *_prefixed("Postman key", "PMAK-", r"a-f0-9-", 50),
    *_prefixed("Sentry token", "sntrys_ sntryu_", rf"{BASE64}_=", 40),
    *_prefixed("Sourcegraph token", "sgp_", rf"{BASE62}_", 40),
    *_prefixed("Linear key", "lin_api_ lin_oauth_", BASE62, 32),
    *_prefixed("Notion token", "ntn_ secret_", BASE62, 40),
    *_prefixed("Figma token", "figd_ figo_", URL64, 30),
    *_prefixed("Atlassian token", "ATATT3 ATCTT3", rf"{URL64}=", 100),
    _shaped("Airtable token", "pat", rf"{_after('pat')}[{BASE62}]{{14}}\.[{HEX}]{{64}}"),
    *_prefixed("1Password token", "ops_eyJ", rf"{URL64}+/=", 100),
    # Clouds
    *_prefixed("AWS access key", "AKIA ASIA ABIA ACCA", "A-Z0-9", 16, most=16),
    *_prefixed("AWS key", "ABSK", rf"{BASE64}=", 100),
    _shaped("Azure key", "Key=", rf"(?:Account|AccessSignature|Access)Key=(?P<{VALUE}>[{BASE64}]{{30,}}+={{0,2}})"),
    _shaped("Azure secret", "Q~", r"(?<![\w~.-])[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34}(?![\w~.-])"),
    *_prefixed("DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", HEX, 60),
    *_prefixed("Databricks token", "dapi", HEX, 32),
    *_prefixed("Alibaba key", "LTAI", BASE62, 16, is_random, 24),
    *_prefixed("Vault token", "hvs. hvb. hvr.", URL64, 24),
    _shaped("Terraform token", ".atlasv1.", rf"(?<![{BASE62}])[{BASE62}]{{14}}\.atlasv1\.[{URL64}]{{40,}}+"),
    *_prefixed("Doppler token", "dp.pt. dp.st. dp.sa. dp.ct.", rf"{BASE62}._-", 40),
    *_prefixed("Grafana token", "glsa_ glc_", rf"{BASE64}_=", 32),
    *_prefixed("Heroku key", "HRKU-", URL64, 36),
    *_prefixed("Fly token", "fm1r_ fm1a_ fm2_ fo1_", rf"{URL64}+/=", 40),
    *_prefixed("Supabase key", "sbp_ sb_secret_", rf"{BASE62}_", 24, has_digit),
    *_prefixed("PlanetScale key", "pscale_tkn_ pscale_pw_ pscale_oauth_", rf"{URL64}.=", 32),
    *_prefixed("Tailscale key", "tskey-", URL64, 20, has_digit),
    *_prefixed("Cloudflare key", "v1.0-", r"a-f0-9-", 100),
    *_prefixed("Pulumi token", "pul-", HEX, 40),
    *_prefixed("New Relic key", "NRAK-", "A-Z0-9", 25),
    _shaped("Dynatrace token", "dt0c01.", rf"{_after('dt0c01.')}[{BASE62}]{{24}}\.[{BASE62}]{{64}}"),
    # Money and messages
    *_prefixed("Stripe key", "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ sk_org_", BASE62, 10),
    *_prefixed("Stripe secret", "whsec_", rf"{BASE64}=", 24),
    *_prefixed("Shopify token", "shpat_ shpca_ shppa_ shpss_", "a-fA-F0-9", 32),
    *_prefixed("Square token", "sq0atp- sq0csp- EAAA", URL64, 22, has_digit),
    *(
        _shaped("Slack token", f"xox{each}-", rf"{_after(f'xox{each}-')}\d[{BASE62}-]{{9,}}+") for each in "abceoprs"
    ),
    *_prefixed("Slack cookie", "xoxd-", rf"{BASE62}%", 30, has_digit),
    _shaped("Slack token", "xoxe.xox", rf"{_after('xoxe.xox')}[bp]-\d-[{BASE62}]{{40,}}+"),
    *_prefixed("Slack token", "xapp-", rf"{BASE62}-", 10, has_digit),
    _shaped("Slack webhook", "hooks.slack.com", rf"hooks\.slack\.com/[a-z]{{4,12}}/(?P<{VALUE}>[{BASE64}_-]{{20,}}+)"),
    _shaped(
        "Discord webhook", "/webhooks/", rf"/webhooks/\d{{15,20}}/(?P<{VALUE}>[{URL64}]{{40,}}+)"
    ),
    _shaped("Discord token", ".", rf"[MNO](?<![{URL64}][MNO])[{URL64}]{{23,27}}\.[{URL64}]{{6,7}}\.[{URL64}]{{27,}}+"),
    _shaped("Teams webhook", "webhook.office.com", rf"webhook\.office\.com/webhookb2/(?P<{VALUE}>[{URL64}@/]{{40,}}+)"),
    _shaped("Telegram token", ":AA", rf"(?<!\d)\d{{8,10}}:AA[{URL64}]{{30,}}+"),
    *_prefixed("SendGrid key", "SG.", rf"{URL64}.", 40, has_digit),
    *_prefixed("Twilio key", " ".join(f"SK{digit}" for digit in "0123456789abcdef"), HEX, 31, most=31),
    *_prefixed("Mailgun key", "key-", HEX, 32, most=32),
    *_prefixed("Typeform token", "tfp_", rf"{BASE62}_.=-", 40),
    *_prefixed("Brevo key", "xkeysib- xsmtpsib-", URL64, 40),
    _shaped("Mailchimp key", " ".join(f"-us{n}" for n in range(10)), rf"(?<![{BASE62}])[{HEX}]{{32}}-us\d{{1,2}}\b"),
    *_prefixed("Facebook token", "EAAC EAAM EAAB EAAG", BASE62, 80),
    *_prefixed("memoryhub key", "mh_", rf"{URL64}", 43, has_digit),
    # Anything
    _shaped("JSON web token", "eyJ", rf"eyJ(?<![{URL64}]eyJ)[{URL64}]{{10,}}+\.eyJ[{URL64}]{{8,}}+(?:\.[{URL64}]*+)?"),
    _shaped(
        "password", "://", rf"://[^\s:/?#@\"'<>]{{0,200}}+:{_NOT_A_VALUE}(?P<{VALUE}>[^\s/@\"'<>]{{1,200}}+)@"
    ),
    _shaped("bearer token", "earer", rf"earer(?<=[Bb]earer)(?: |%20)(?P<{VALUE}>[{URL64}.~+/]{{16,}}+=*+)", has_digit),
    _shaped(
        "URL token", "=",
        r"[?&;](?i:access_token|refresh_token|id_token|auth_token|token|api_?key|apikey|key|sig|signature|secret|"
        r"client_secret|password|passwd|pwd|auth|x-amz-signature|x-amz-security-token|x-goog-signature)="
        rf"(?P<{VALUE}>[{BASE62}._~%+/=-]{{12,}}+)",
        is_random,
    ),
    _shaped("password", "-u", rf" -u[ =]?[\"']?[^\s:\"'@/]{{0,100}}+:{_NOT_A_VALUE}(?P<{VALUE}>[^\s\"']{{4,100}}+)"),
)  # fmt: skip


HEAD: Final = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9][!-~]{2}(?=[!-~]{7})")
"""The beginning of a run of ten characters without a space, behind no letter or digit."""


def _by_head() -> dict[str, list[Shape]]:
    shapes: dict[str, list[Shape]] = {}
    for shape in SHAPES:
        for head in {mark[:3] for mark in shape.marks if shape.begins}:
            shapes.setdefault(head, []).append(shape)
    return shapes


BY_HEAD: Final = _by_head()
"""Shapes that begin with their marks, by their first three characters: few texts have any of them."""

ANYWHERE: Final = tuple(shape for shape in SHAPES if not shape.begins)


@dataclass(frozen=True)
class Named:
    """A value after one of some names, in any case; the pattern begins behind the name."""

    names: tuple[str, ...]
    pattern: re.Pattern[str] = field(repr=False)


_SIGN: Final = r"\s{0,4}+(?::=|=>|={1,3}|[:：>])\s{0,4}+\[?\s{0,4}+"
_NEXT_MEMBER: Final = r"\s{0,4}+,?\s{0,40}+\\?[\"']?(?i:value)\\?[\"']?\s{0,4}+[:=]\s{0,4}+"
"""Between a name and its value in `{"name": "DB_PASSWORD", "value": "…"}`, in JSON and YAML."""
_QUOTED: Final = r"\\?(?P<quote>[\"'`])(?P<quoted>[^\"'`\s\\]{4,200}+)(?=\\?(?P=quote))"
_BARE: Final = rf"(?P<{VALUE}>[^\s\"'`,;=()<>{{}}\[\]|\\:：]{{4,200}}+={{0,2}})"

PASSWORD_NAMES: Final = ("password", "passwd", "passphrase", "passcode", "pwd", "_pass", "secret", "パスワード")
TOKEN_NAMES: Final = (
    "token", "credential", "apikey", "api_key", "api-key", "access_key", "access-key", "accesskey", "secretkey",
    "auth_key", "private_key", "signing_key", "encryption_key", "master_key", "service_key", "account_key", "_auth",
)  # fmt: skip
KEY_NAME: Final = "_key"
"""The end of names that may be anything's."""

HARMLESS_NAMES: Final = (
    "page", "next", "continuation", "idempotency", "cache", "primary", "foreign", "public", "sort", "partition",
    "routing", "object", "unique", "max", "csrf",
)  # fmt: skip
"""Words before a name with which its value is no secret."""

ASSIGNED: Final = Named(
    (*PASSWORD_NAMES, *TOKEN_NAMES, KEY_NAME),
    re.compile(
        rf"(?P<suffix>[{URL64}]{{0,20}}+)\\?[\"'`]?\]?"
        rf"(?:(?P<sign>{_SIGN}|{_NEXT_MEMBER})|(?P<blank> ))(?:{_QUOTED}|{_BARE})"
    ),
)
"""In a file of settings, in code, in JSON, as an option of a command."""

HEADER: Final = Named(
    (
        "authorization", "x-api-key", "api-key", "x-auth-token", "private-token", "x-vault-token",
        "x-amz-security-token",
    ),
    re.compile(
        r"\\?[\"']?\s{0,2}+[:=]\s{0,2}+\[?\\?[\"']?(?P<scheme>(?i:(?:bearer|basic|token|apikey|bot)\s{1,2}+)?)"
        rf"(?P<{VALUE}>[{BASE64}._~-]{{8,}}+={{0,2}})"
    ),
)  # fmt: skip
"""Headers that name the caller."""

WINDOW: Final = 60
NUMBER_NAMES: Final = frozenset({"pin", "passcode", "login code", "暗証番号", "パスコード"})
"""Names of secrets that may be numbers alone."""

STATED: Final = Named(
    (
        "password", "passphrase", "passcode", "pin", "login code", "api key", "secret", "access token",
        "パスワード", "パスコード", "暗証番号", "合言葉", "apiキー", "秘密鍵", "アクセストークン",
    ),
    re.compile(
        r"(?:\b(?:is|was|are|to)\b|:(?= )|[：はを])[ 　]{0,3}(?:(?:now|still|set to|currently) )?"
        rf"[「『\"'“`]?(?P<{VALUE}>[!-~]{{4,64}})"
    ),
)  # fmt: skip
"""A password in prose; looked for in the WINDOW behind the name, within its sentence."""
