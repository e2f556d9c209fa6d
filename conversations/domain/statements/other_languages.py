"""Words by which statements in languages besides English and Japanese are checked: user, negation, relatives. Pure.

Tables, not grammars: they know the plain forms, and what they do not know passes as the model drew it.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

_USERS: Final = (
    "benutzer(?:in|s)?|nutzer(?:in|s)?|anwender(?:in|s)?|utilisateur|utilisatrice|usuari[oa]|utente|utilizador|utilizadora"
    "|usuári[oa]|gebruiker|użytkownik|użytkowniczka|пользовател\\w*"
)
USER_IS_SUBJECT: Final = re.compile(
    rf"^(?:(?:der|die|dem|den|el|la|al?|il|lo|o|de|у) |l['’]|all['’])?(?:{_USERS})\b|^用户[^的]|^사용자[는은가이에]",
    re.IGNORECASE,
)
NEGATED: Final = re.compile(
    r"\b(?:kein(?:e[nmrs]?)?|nicht(?! nur)|nie(?:mals)?|ne?[ '’]\w+ (?:pas|plus|jamais)|(?:je|on) \w+ pas|no|nunca|non"
    r"|mai|não|niet|geen|nooit|не|никогда|nie)\b|不(?!但|过|错|好意思|客气)|没(?!问题|事|关系)有?|别(?=再|用)"
    r"|(?<![\uac00-\ud7a3])[안못](?= )"
)
DENIED_SHARE: Final = 0.45
"""Share of a negated clause's words that a statement has, from which on it is denied: verbs differ by their person."""

NEGATIVE: Final = re.compile(
    NEGATED.pattern
    + r"|\b(?:statt|lieber|ohne|ungern|hasst|meidet|allergi\w+|unverträglich\w*|plutôt|préfère|sans|déteste"
    r"|évite|intoléran\w+|prefiere|sin|odia|evita|alérgi\w+|preferisce|senza|prefere|sem|liever|zonder|вместо|без"
    r"|ненавид\w+|аллерги\w+|предпочита\w+|woli|bez)\b|[而无無]|胜过|讨厌|过敏|避免|않|없|싫|대신|보다|알레르기"
)
"""What a statement says that does not contradict a negation."""

_RELATIVES: Final = (
    "(?:groß|schwieger|stief)?(?:mutter|vater)|schwester|bruder|tochter|sohn|oma|opa|tante|onkel|cousine?|freund(?:in)?"
    "|mann|frau|kolleg(?:e|in)|chef(?:in)?|nachbar(?:in)?|mitbewohner(?:in)?|mère|père|sœur|soeur|frère|fille|fils"
    "|grand-(?:mère|père)|oncle|copine?|copain|ami|amie|mari|femme|collègue|voisine?|patronn?e?|madre|padre|mamá|papá"
    "|herman[oa]|hij[oa]|abuel[oa]|tí[oa]|prim[oa]|novi[oa]|amig[oa]|marido|mujer|espos[oa]|compañer[oa]|jef[ea]|vecin[oa]"
    "|mamma|papà|sorella|fratello|figli[oa]|nonn[oa]|zi[oa]|cugin[oa]|amic[oa]|moglie|marito|collega|capo|vicin[oa]"
    "|mãe|pai|irmã|irmão|filh[oa]|avó|avô|namorad[oa]|mulher|colega|chefe|vizinh[oa]|moeder|vader|zus|broer|dochter|zoon"
    "|vriend(?:in)?|buurman|buurvrouw|baas|matka|ojciec|siostra|brat|córka|syn|mąż|żona|мам[аыуе]|пап[аыуе]|мать|отец"
    "|сестр[аыуе]|брат\\w?|доч\\w+|сын\\w?|муж\\w?|жен[аыуе]|друг|подруг[аи]|коллег[аи]|сосед\\w*|начальник\\w?"
)
_CHINESE: Final = (
    "妈妈?|爸爸?|母亲|父亲|姐姐?|妹妹?|哥哥?|弟弟?|女儿|儿子|老公|老婆|丈夫|妻子|朋友|同事|老板|邻居|室友|奶奶|爷爷"
)
_KOREAN: Final = (
    "어머니|아버지|엄마|아빠|언니|누나|오빠|형|동생|남동생|여동생|딸|아들|남편|아내|친구|동료|상사|이웃|할머니|할아버지"
)
RELATED: Final = re.compile(rf"\b(?:{_RELATIVES})\b|{_CHINESE}|{_KOREAN}")

THIRD: Final = re.compile(
    rf"^(?:(?:und|aber|et|mais|y|pero|e|ma|mas|en|maar|i|ale|и|а|но) )?"
    rf"(?:(?:mein|meine|unser|unsere|mon|ma|notre|mi|nuestr[oa]|(?:il |la )?mi[oa]|(?:o meu|a minha|meu|minha)|mijn"
    rf"|onze?|mój|moja|мой|моя|наш|наша|у моего|у моей) (?P<relation>{_RELATIVES})\b"
    rf"|我(?:的|们)?(?P<chinese>{_CHINESE})|(?:제|내|우리) (?P<korean>{_KOREAN})[는은이가의]?)",
    re.IGNORECASE,
)
FIRST: Final = re.compile(
    r"\b(?:ich|mir|mich|wir|uns|je|j['’]|moi|nous|yo|me|nosotros|io|mi|noi|eu|nós|ik|wij|ja|mnie|я|мне|меня|мы)(?:\b|(?<=['’]))"
    r"|我|(?<![\uac00-\ud7a3])(?:나|저|내가|제가|우리)(?:[는도를]|\b)"
)


_CLAUSE: Final = re.compile(r"[，；]|\b(?:aber|sondern|mais|pero|sino|ma|mas|maar|но|а|ale)\b|但是?|可是|지만")


def denied_clauses(texts: Iterable[str]) -> Iterator[str]:
    """Yield the negated clauses of texts, without their negations and pronouns."""
    for clause in (each for text in texts for each in _CLAUSE.split(text)):
        if NEGATED.search(clause):
            yield FIRST.sub(" ", NEGATED.sub(" ", clause))
