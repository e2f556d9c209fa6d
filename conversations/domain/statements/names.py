"""Names in English, German and Japanese texts: capitalised words, words in a name's place, and known ones. Pure."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from conversations.domain.statements.dates import MONTHS, WEEKDAYS
from conversations.domain.statements.german import BEFORE, is_german, is_plain_noun
from conversations.domain.statements.numerals import UNITS
from memoryhub.search.analysis import COMPOUND, ENGLISH_STOP_WORDS, HAN, HIRAGANA, KATAKANA, analyse, fold
from memoryhub.search.bm25 import common_terms, term_id

WORD: Final = re.compile(rf"[^\W\d_{HIRAGANA}{KATAKANA}{HAN}](?:['’&.]?[^\W_{HIRAGANA}{KATAKANA}{HAN}]){{0,40}}")
_SENTENCE_START: Final = re.compile(r"(?:^|[.!?:;。！？：\n]|[\"“「(])\s{0,3}$")
_SUBJECT_VERB: Final = re.compile(
    r"(?:['’]s\b| (?:and|or) [A-Z]|,| [A-Z]| (?:is|was|are|were|has|had|will|can|does|\w{2,12}[sd])\b)"
)
_PLAIN_CAPITALS_WORDS: Final = """
user users assistant ai ok tv pc id it mr mrs ms dr prof situation intent actions outcome today yesterday tomorrow
currently recently lately since now formerly previously first next open work works family coffee tea dinner lunch
breakfast dogs cats music
"""
_PLAIN_CAPITALS: Final = frozenset(_PLAIN_CAPITALS_WORDS.split())
_DEMONYMS: Final = {
    "spanish": "spain", "french": "france", "dutch": "netherlands", "danish": "denmark", "british": "britain",
    "swiss": "switzerland", "polish": "poland", "turkish": "turkey", "greek": "greece", "thai": "thailand",
    "finnish": "finland", "swedish": "sweden", "irish": "ireland", "welsh": "wales",
}  # fmt: skip
_HONORIFIC: Final = re.compile(
    f"([{HAN}]{{1,4}}|[{KATAKANA}]{{2,12}}|(?<![{HIRAGANA}])[{HIRAGANA}]{{2,4}})(?:さん|くん|君|ちゃん|氏|先生|様)"
)
_PLACE: Final = re.compile(f"(?<![{HAN}])([{HAN}]{{1,5}})[都道府県市区町村駅店](?![{HAN}])")
_DWELLING: Final = re.compile(
    f"([{HAN}]{{2,8}}|[{KATAKANA}]{{2,15}})"
    "(?:に(?:住|引っ|転居|移住|転勤|出張|旅行|留学)|へ(?:引っ|転居|移住|旅行)|在住|出身|で(?:生まれ|育)|生まれ|育ち)"
)
_RELATED: Final = re.compile(
    f"(?:愛?犬|愛?猫|娘|息子|妻|夫|姉|妹|兄|弟|母|父|友人|友達|上司|同僚|部下|恋人|彼女|彼氏|先輩|後輩|主治医)の"
    f"([{HAN}]{{1,4}}|[{KATAKANA}]{{2,12}}|[{HIRAGANA}]{{2,4}}?)(?=[はがとをにで、。]|さん|くん|ちゃん|と?いう)"
)
_MET: Final = re.compile(f"([{HAN}]{{1,4}}|[{KATAKANA}]{{2,12}})(?:を(?:迎え|連れ|預)|と(?:暮ら|住ん|結婚し|付き合))")
_NAMED: Final = re.compile(
    f"(?:名前|名|愛称|呼び名)は「?([{HAN}{KATAKANA}]{{1,12}}|[{HIRAGANA}]{{2,6}}?)(?=」|で|だ|と|。|、|$)"
    f"|「?([{HAN}{KATAKANA}]{{1,12}})」?(?:という名|と名付け|と呼ば)"
)
_PLACED: Final = re.compile(
    f"(?<![{HAN}{KATAKANA}\\d])"
    "(?![〇一二三四五六七八九十百千]{1,3}[文人本枚回度部番目方緒切種定般様面分年月日時週歳つ])"
    f"([{HAN}]{{2,4}}|[{HAN}]{{1,3}}ヶ[{HAN}]{{1,2}})(?=[のにへ]|で(?![あすはし])|から|まで)"
)
"""Where a place is named; a word of everyday language is none."""

_KATAKANA_RUN: Final = re.compile(f"(?<![{KATAKANA}])[{KATAKANA}]{{3,20}}(?![{KATAKANA}])")
_QUOTED: Final = re.compile(r"[「『“\"]([^「」『』“”\"]{2,60})[」』”\"]")
_JAPANESE_NAMES_WORDS: Final = """
北海道 札幌 小樽 函館 旭川 青森 弘前 岩手 盛岡 宮城 仙台 秋田 山形 福島 郡山 茨城 水戸 栃木
宇都宮 群馬 前橋 高崎 埼玉 大宮 浦和 川越 千葉 船橋 柏 東京 新宿 渋谷 池袋 品川 横浜 川崎 鎌倉
神奈川 新潟 富山 石川 金沢 福井 山梨 甲府 長野 松本 岐阜 静岡 浜松 愛知 名古屋 豊田 三重 四日市
滋賀 大津 京都 大阪 堺 兵庫 神戸 姫路 奈良 和歌山 鳥取 島根 松江 岡山 倉敷 広島 山口 下関 徳島
香川 高松 愛媛 松山 高知 福岡 博多 北九州 佐賀 長崎 佐世保 熊本 大分 別府 宮崎 鹿児島 沖縄 那覇
韓国 台湾 中国 米国 英国 香港 上海 北京 佐藤 鈴木 高橋 田中 伊藤 渡辺 渡邊 中村 小林 加藤 吉田
山田 佐々木 斎藤 斉藤 松田 井上 木村 清水 山崎 阿部 池田 橋本 山下 森田 石井 中島 前田 藤田
小川 後藤 岡田 長谷川 村上 近藤 石田 坂本 遠藤 青木 藤井 西村 福田 太田 三浦 藤原 岡本 中川
中野 原田 小野 竹内 金子 和田 中山 上田
"""
_JAPANESE_NAMES: Final = frozenset(_JAPANESE_NAMES_WORDS.split())
_NAME_IN_HAN: Final = re.compile("|".join(sorted(_JAPANESE_NAMES, key=len, reverse=True)))
_GENERIC_WORDS: Final = """
休日 平日 祝日 毎晩 以外 以内 今後 将来 過去 当時
実家 都内 市内 県内 郊外 海外 近所 国内 地元 田舎 都会 地方 最寄 奥 お母 お父 お兄 お姉 母 父
兄 姉 弟 妹 娘 息子 旦那 皆 子 赤 神 客 医者 看護師 店員 店長 隣 部長 課長 社長 同僚 上司
先輩 後輩 友達 友人 祖父 祖母 叔父 叔母 たく みな おく お子 みなさ ユーザ ユーザー アシスタント
誕生 単身 一人 家族 仕事 長期 新婚 自宅 会社 学校 同 各 全 毎 両 先 以前 現在 多 少 新 旧
同じ 月曜 火曜 水曜 木曜 金曜 土曜 日曜 編集者 編集 記者 作家 弁護士 教師 美容師 店主
"""
_GENERIC: Final = frozenset(_GENERIC_WORDS.split())
_LOANWORDS_WORDS: Final = """
メール アドレス メールアドレス ロールプレイ ノートパソコン パソコン アレルギー ベジタリアン マンション
アパート プロジェクト チーム スタイル トレーニング ランニング ジョギング コーヒー ペット プレゼント
スケジュール アルバイト パート シフト プログラミング データ エンジニア デザイナー マネージャー リーダー
グループ オンライン リモートワーク スマートフォン アプリ アプリケーション ソフトウェア ウェブサイト
ホームページ アカウント レストラン カフェ メニュー レシピ ダイエット フルーツ ヨガ スポーツ サッカー
バスケットボール ボランティア コミュニティ キャリア パートナー プライベート ストレス リラックス
クラシック ジャズ ギター バイオリン コンサート バス タクシー ドライブ フライト ホテル チケット
パスポート クレジットカード ローン コスト メンバー クラス レッスン コース
"""
_LOANWORDS: Final = frozenset(_LOANWORDS_WORDS.split())
"""Plain words that a statement may use in place of others; the table of common terms has few in katakana."""

_TO_KATAKANA: Final = {ord(sign): ord(sign) + 96 for sign in map(chr, range(0x3041, 0x3097))}


def squashed(text: str) -> str:
    """Return a text for the search of names: folded, without spaces and signs, in katakana."""
    kept = "".join(sign for sign in fold(text) if sign.isalnum() or sign == "ー")
    return kept.translate(_TO_KATAKANA)


def names(text: str) -> Iterator[str]:
    """Yield the names that a text states, once each."""
    seen = set[str]()
    found = [*(name for line in text.splitlines() for name in _latin_names(line)), *_japanese_names(text)]
    found += [match[1] for match in _QUOTED.finditer(text)]
    for name in found:
        if (key := squashed(name)) and key not in seen:
            seen.add(key)
            yield name


def _latin_names(text: str) -> Iterator[str]:
    """Yield the capitalised words of a line; of those that begin a sentence, what has the place of a subject.

    In a Japanese line each Latin word may be a name.
    """
    is_japanese = any("\u3040" <= sign <= "\u30ff" for sign in text)
    has_capital_nouns = not is_japanese and is_german(text)
    for match in WORD.finditer(text):
        word = match[0].removesuffix("'s").removesuffix("’s")
        lower = word.casefold()
        if lower in _PLAIN_CAPITALS or lower in ENGLISH_STOP_WORDS or bare(lower) in WEEKDAYS or lower in MONTHS:
            continue
        if lower in UNITS or len(word) < 2 or not (is_japanese or any(map(str.isupper, word))):
            continue
        before = text[max(0, match.start() - BEFORE) : match.start()]
        if has_capital_nouns and is_plain_noun(word, before):
            continue
        is_first = _SENTENCE_START.search(before) is not None and not any(map(str.isupper, word[1:]))
        if is_first and not is_japanese and not _SUBJECT_VERB.match(text, match.start() + len(word)):
            continue
        if not (is_first and _is_common(lower)):
            yield word


def _japanese_names(text: str) -> Iterator[str]:
    for match in _NAME_IN_HAN.finditer(text):
        yield match[0]
    for pattern in (_HONORIFIC, _PLACE, _DWELLING, _RELATED, _MET, _NAMED, _PLACED):
        for match in pattern.finditer(text):
            name = next(filter(None, match.groups()), "")
            if name and name not in _GENERIC and not name.endswith("曜日") and not _is_common(name):
                yield name


@lru_cache(maxsize=20_000)
def _is_common(word: str) -> bool:
    """Return whether a word is one of everyday language, by the table of common terms."""
    terms = [term for term in analyse(word) if term.startswith(COMPOUND) or term.isascii()]
    return bool(terms) and all(common_terms().get(term_id(term), 0) > 0 for term in terms)


def bare(word: str) -> str:
    """Return a folded word without its plural or possessive ending."""
    return re.sub(r"(?:['’]s?|(?<=[^s])s)$", "", word)


def is_inflected(one: str, other: str) -> bool:
    """Return whether two names differ by an ending, such as Italy and Italian."""
    one, other = (_DEMONYMS.get(word, word) for word in (one, other))
    short, long = sorted((one.rstrip("aeiouy"), other), key=len)
    return one == other or (len(short) >= 4 and long.startswith(short) and len(long) - len(short) <= 4)


def loanwords(text: str) -> Iterator[str]:
    """Yield the words in katakana that are none of everyday language."""
    for match in _KATAKANA_RUN.finditer(text):
        if match[0] not in _GENERIC and match[0] not in _LOANWORDS and not _is_common(match[0]):
            yield match[0]
