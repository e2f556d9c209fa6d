"""What is left out of the word index, because everybody says it.

A shared "the" or a shared 「です」 is no match. The lists are short on purpose: a term that is merely
common is already made light by its idf, so only words without a meaning of their own stand here.
"""

from typing import Final

_ENGLISH: Final = """
a about after again against all also am an and any are aren as at be because been before being
below between both but by can cannot could couldn d did didn do does doesn doing don down during
each even ever few for from further get gets getting go goes going gonna got had hadn has hasn have
haven having he hello her here hers herself hey hi him himself his how i if im in into is isn it its
itself ive just let ll like m make me might more most much must my myself no nor not now of off oh ok
okay on once one only or other our ours ourselves out over own please re really s same shall she
should shouldn so some such t tell than thank thanks that the their theirs them themselves then
there these they this those through to too under until up us ve very want was wasn we well were
weren what when where which while who whom whose why will with won would wouldn yeah yes yet you
your yours yourself yourselves
"""

_JAPANESE: Final = """
です ます でし まし した ませ せん だっ った たら たり って てい いる いた いま ある あっ あり おり
れる られ れた れて せる せた させ する すれ しま して しな しよ しょ ょう よう うに うな うだ うか
とい いう いっ いい うこ こと とが とを とは との とも にも には にお おい いて ての ては ても てき
てく くれ での では でも であ から らの らは らに まで など どの どを どが だけ より りも また まだ
もの もう もし のは のが のを のに ので のだ のよ のか んだ んで んな ない なく なか なっ なる なり
なら なん なに なぜ それ そし その そう そこ この これ ここ こう こん あの あれ どれ どん どう どこ
いつ だれ ため たい たく たち かっ かも かし しか しれ れな かな よね とし にな にし にと とな ほど
ずに くだ ださ さい えて けど れど けれ がら なが ると たと きた きて くる くて てる てた れま りま
きま いで すか すが すよ すね ござ ざい んは さん くん ちゃ ゃん はい いえ ええ うん えー あー
れは れが れを れに れも れと れで こは こが こに こで こも こへ のも とか
"""

ENGLISH_STOP_WORDS: Final = frozenset(_ENGLISH.split())
JAPANESE_STOP_GRAMS: Final = frozenset(_JAPANESE.split())
JAPANESE_PARTICLES: Final = frozenset("はがをにのでともへやかねよなだ")
