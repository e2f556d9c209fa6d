"""Function words of queries in languages besides English and Japanese. Pure.

They are terms of stored texts, for which there is no list by language. In a query they are none: otherwise
"Wo ist meine Karte?" finds each text with "ist".
"""

from collections.abc import Collection
from typing import Final

from memoryhub.search.analysis import ENGLISH_STOP_WORDS, analyse, fold

_SIGNS: Final = {
    "de": """
        ich du wir mich mir dich dir uns euch ihnen ihr mein meine meinen meinem meiner dein deine deinen deinem deiner
        seine seinen seinem seiner unser unsere unseren der das dem ein eine einen einem einer und oder aber nicht kein
        keine keinen ist sind habe hast haben hatte wird werden wurde kann kannst muss wo wie wer wen wem wann warum
        welche welcher welches welchen welchem mit auf aus bei nach von vom zu zum zur für auch noch schon
    """,
    "fr": """
        je tu il elle nous vous ils elles moi toi mon ma mes ton ta tes ses notre nos votre vos leur le la les du un une
        des est suis es sommes sont ai avons avez ont ne pas où quand comment pourquoi quel quelle quels quelles qui que
        quoi dans avec sur chez ce cet cette ces aux et ou je j l d c qu
    """,
    "es": """
        yo tú él ella nosotros ellos mi mis tu tus su sus nuestro nuestra el la los las un una unos unas del al es soy
        eres está estoy están son tengo tiene he ha qué dónde cuándo cómo cuál quién por para con que en y pero muy
    """,
    "it": """
        io tu lui lei noi voi loro mio mia miei mie tuo tua suo sua nostro il lo la gli le un uno una del della dei
        delle al alla nel nella è sono sei ho hai che cosa dove quando come quale chi con per di anche ma molto dov l
    """,
    "pt": """
        eu tu ele ela nós eles meu minha meus minhas teu tua seu sua nosso o os um uma do da dos das no na nos nas ao é
        sou são está estou tenho tem que onde quando como qual quem por para com em e mas muito não
    """,
    "nl": """
        ik jij je hij zij wij mijn jouw zijn haar ons onze de het een van en is ben heb heeft hebben niet geen waar
        wanneer hoe waarom welke wie wat met voor naar bij op te dat ook maar
    """,
    "ru": """
        я ты он она мы вы они меня мне мой моя моё мои твой наш у в на с к о и не что где когда как какой какая какие
        кто почему это есть был была для по из от
    """,
    "pl": """
        ja ty on ona my wy oni mnie mi mój moja moje moi twój nasz w na z do od o i nie co gdzie kiedy jak jaki jaka
        jakie kto dlaczego to jest są był była dla po się
    """,
}
_ALSO_ENGLISH: Final = {
    "de": "am an bin den des die er es gibt hat im in man sie so war was will",
    "fr": "a au me on se te son par pour",
    "es": "me a de no se te",
    "it": "a i in non mi ti si e da ha",
    "pt": "a as me de se te",
    "nl": "in was me",
}
"""Words that English, or a name, has too: they are no sign of a language."""

MIN_SIGNS: Final = 2
"""Different words of a language from which on a query is in it, if it has more than of any other."""

_WORDS: Final = {
    "": ENGLISH_STOP_WORDS,
    **{language: frozenset(fold(words).split()) for language, words in _SIGNS.items()},
}


_LEFT_OUT: Final = {
    language: words | frozenset(fold(_ALSO_ENGLISH.get(language, "")).split())
    for language, words in _WORDS.items()
    if language
}
_TERMS: Final = {language: words | frozenset(analyse(" ".join(words))) for language, words in _LEFT_OUT.items()}


def _language(words: Collection[str]) -> str:
    asked = frozenset(words)
    counts = {language: len(signs & asked) for language, signs in _WORDS.items()}
    best = max(counts, key=lambda language: counts[language])  # of equals English, the first
    return best if counts[best] >= MIN_SIGNS else ""


def function_words(words: Collection[str]) -> frozenset[str]:
    """Return the function words of the language of a query's folded words; none for English and Japanese."""
    return _LEFT_OUT.get(_language(words), frozenset())


def function_terms(words: Collection[str]) -> frozenset[str]:
    """Return the same as terms, see `analysis.analyse`."""
    return _TERMS.get(_language(words), frozenset())
