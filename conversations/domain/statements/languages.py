"""Language of a text, by its script and its most frequent words; "" where neither decides. Pure."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from memoryhub.search.analysis import HIRAGANA, KATAKANA, is_unspaced

MAX_LENGTH: Final = 5_000
MIN_WORDS: Final = 2
"""Words of a language's list that a text has at least, and more than of any other."""

MIN_SHARE: Final = 0.15
"""Share of kana among the letters of a Japanese text; an English one may name something in kana."""

_KANA: Final = re.compile(f"[{HIRAGANA}{KATAKANA}]")
_LETTER: Final = re.compile(r"[^\W\d_]")
_SCRIPTS: Final = (
    ("ko", re.compile("[\uac00-\ud7a3]")), ("th", re.compile("[\u0e01-\u0e4e]")), ("el", re.compile("[\u0370-\u03ff]")),
    ("he", re.compile("[\u05d0-\u05ea]")), ("zh", re.compile("[\u4e00-\u9fff]")),
)  # fmt: skip
_WORD: Final = re.compile(r"[^\W\d_]{1,12}")
_FREQUENT: Final = {
    "en": "the is are was and of to that it you for with have has i my we this not be in on at",
    "de": "der die das und ist nicht ich ein eine mit für auf den zu wir sind habe hat auch dem im von",
    "fr": "le la les des est et je une un dans pour pas avec que vous nous sur suis ai du au elle",
    "es": "el la los las que es y en una un para con por no mi soy tengo muy pero está del vivo me",
    "it": "il lo gli che è di una un per con non sono ho mi nel della molto ma anche io alla vive",
    "pt": "o os que é e um uma para com não meu minha em do da no na sou tenho muito mas eu está",
    "nl": "de het een en is van ik niet met voor dat op te zijn heb heeft maar ook aan mijn woont in",
}
_WORDS: Final = {language: frozenset(words.split()) for language, words in _FREQUENT.items()}


def are_other_languages(text: str, other: str, *, is_tag: bool = False) -> bool:
    """Return whether a text is in another language than another text, or than a tag names; False if that is not clear.

    However short, a text without a letter of an unspaced script is not Japanese, and one with it not of another script.
    """
    written, wanted = language_of(text), other.partition("-")[0].casefold() if is_tag else language_of(other)
    if not wanted or not written:
        is_other_script = is_unspaced(text) and not is_tag and not is_unspaced(other)
        return is_other_script or (wanted == "ja" and not is_unspaced(text))
    return written != wanted


AUTO: Final = "auto"
AGENT: Final = "agent"
_TAG: Final = re.compile(r"[a-z]{2,3}(?:-[A-Za-z0-9]{2,8}){0,3}")
PROMPTS: Final = ("en", "ja")
"""Languages in which there are prompts and headings."""

_NAMES: Final = {
    "en": ("English", "英語"), "ja": ("Japanese", "日本語"), "de": ("German", "ドイツ語"),
    "fr": ("French", "フランス語"), "es": ("Spanish", "スペイン語"), "it": ("Italian", "イタリア語"),
    "pt": ("Portuguese", "ポルトガル語"), "nl": ("Dutch", "オランダ語"), "ko": ("Korean", "韓国語"),
    "zh": ("Chinese", "中国語"), "ru": ("Russian", "ロシア語"),
}  # fmt: skip


def is_setting(value: object) -> bool:
    """Return whether a value is one of the policy `memory_language`."""
    return isinstance(value, str) and (value in (AUTO, AGENT) or _TAG.fullmatch(value) is not None)


@dataclass(frozen=True)
class Writing:
    """Language in which a model writes: the tag, "" for that of its material, and the language of its prompt."""

    tag: str
    prompt: str

    @property
    def phrase(self) -> str:
        """The words of a prompt that name the language."""
        if not self.tag:
            return "もとの文と同じ言語の" if self.prompt == "ja" else "in the language of the text that it comes from"
        english, japanese = _NAMES.get(self.tag.partition("-")[0], (f"“{self.tag}”", f"「{self.tag}」"))
        return f"{japanese}の" if self.prompt == "ja" else f"in {english}"


def writing(setting: str, texts: Iterable[str], *, agent: str, is_one: bool = False) -> Writing:
    """Return the language to write in, by the policy `memory_language`: `auto`, `agent` or a tag.

    With `auto` a prompt is in the language of the most texts, where that is known and there are prompts in it, else in
    the agent's; statements have each the language of its source, and what is one text (`is_one`) that of the most.
    """
    if setting != AUTO:
        tag = agent if setting == AGENT else setting
        own = tag.partition("-")[0]
        return Writing(tag, own if own in PROMPTS else agent)
    listed = list(texts)
    counts = Counter(filter(None, map(language_of, listed)))
    most = next((tag for tag, _count in counts.most_common(1)), "") or language_of("\n".join(listed))
    prompt = most if most in PROMPTS else "en" if most else agent
    return Writing(most if is_one or set(counts) <= {most} else "", prompt)


def language_of(text: str) -> str:
    """Return the tag of a text's language, "" where it is not clear."""
    letters = _LETTER.findall(text[:MAX_LENGTH])
    if not letters:
        return ""
    if len(_KANA.findall(text[:MAX_LENGTH])) >= MIN_SHARE * len(letters):
        return "ja"
    for tag, script in _SCRIPTS:
        if len(script.findall(text[:MAX_LENGTH])) > len(letters) / 2:
            # Two kanji without kana may be either language.
            return tag if tag != "zh" or len(letters) > 8 else ""
    words = _WORD.findall(text[:MAX_LENGTH].casefold())
    counts = Counter({tag: sum(word in frequent for word in words) for tag, frequent in _WORDS.items()})
    (first, most), (_second, next_most) = [*counts.most_common(2), ("", 0), ("", 0)][:2]
    return first if most >= MIN_WORDS and most > next_most else ""
