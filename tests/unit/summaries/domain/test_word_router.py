"""Limits of the router in content words, on pairs of translations: both languages fall on the same side (SPEC P3)."""

import pytest

from memoryhub.search.analysis import analyse
from summaries.domain.word_router import MIN_NEW_TOPIC_SIZE, MIN_TOPIC_SIZE, _topic_size, candidates_of, profile_of

SHORT = [
    ("The soup is too salty", "スープが塩辛い"), ("My knee hurts", "膝が痛い"), ("Book the dentist", "歯医者の予約"),
    ("The printer is jammed", "プリンターが詰まった"), ("We planted tomatoes", "トマトを植えた"), ("The rent went up", "家賃が上がった"),
    ("Feed the cat", "猫にえさ"), ("Draft the invoice", "請求書の下書き"), ("Fix the login bug", "ログインのバグを直す"),
    ("Train for the marathon", "マラソンの練習"), ("Paint the kitchen", "台所を塗る"), ("Buy a bike", "自転車を買う"),
    ("The roof leaks", "屋根が雨漏りする"), ("Review the contract", "契約書を見直す"), ("Plan the wedding", "結婚式の計画"),
    ("Water the garden", "庭の水やり"), ("Learn the piano", "ピアノを習う"), ("Pack the boxes", "箱に詰める"),
    ("Call the plumber", "配管工に電話"), ("Bake the bread", "パンを焼く"),
]  # fmt: skip
LONGER = [
    ("The supplier of our tea raised the price in March", "お茶の仕入先が三月に値段を上げた"),
    ("Send the slides of the keynote to the printer before noon", "基調講演の資料を正午までに印刷所へ送る"),
    ("The children start school in the new district", "子どもが新しい地区の学校に通い始める"),
    ("Compare the insurance of both vans before the trip", "旅行の前に二台の車の保険を比較する"),
    ("The roof of the greenhouse broke in the storm last night", "昨夜の嵐で温室の屋根が壊れた"),
]
SMALL_TALK = [
    "Thanks!",
    "yes please",
    "Got it",
    "No problem",
    "ありがとう！",
    "はい、お願いします",
    "了解です",
    "大丈夫です",
    "うん、いいね",
    "また明日",
]


@pytest.mark.parametrize(
    ("pairs", "limit"), [(SHORT, MIN_TOPIC_SIZE), (LONGER, MIN_TOPIC_SIZE), (LONGER, MIN_NEW_TOPIC_SIZE)]
)
def test_translations_are_as_large_as_each_other(pairs: list[tuple[str, str]], limit: float) -> None:
    english, japanese = ([_topic_size(analyse(pair[place])) >= limit for pair in pairs] for place in (0, 1))

    assert all(english)
    assert japanese.count(False) <= 1


@pytest.mark.parametrize("message", [text for pair in SHORT[:6] for text in pair])
def test_a_short_message_with_content_has_candidates(message: str) -> None:
    assert candidates_of(message, [profile_of("house", description=message, texts=[])]) == ("house",)


@pytest.mark.parametrize("message", SMALL_TALK)
def test_small_talk_has_none(message: str) -> None:
    assert candidates_of(message, [profile_of("house", description=message, texts=[])]) == ()
