"""Texts, ids and times of exports that tests write."""

import random
from datetime import UTC, datetime, timedelta
from uuid import UUID

START = datetime(2025, 3, 1, 9, tzinfo=UTC)
ENGLISH = [
    "the",
    "train",
    "to",
    "Kyoto",
    "leaves",
    "at",
    "noon",
    "and",
    "my",
    "sister",
    "likes",
    "green",
    "tea",
    "with",
    "citrus",
    "when",
    "it",
    "rains",
    "so",
    "we",
    "plan",
    "a",
    "budget",
    "for",
    "the",
    "meeting",
    "tomorrow",
    "about",
    "invoices",
    "from",
    "the",
    "supplier",
    "in",
    "Osaka",
    "who",
    "asked",
    "whether",
    "the",
    "new",
    "contract",
    "covers",
    "repairs",
    "of",
    "pumps",
]
JAPANESE = [
    "来週の会議では新しい契約について話します",
    "京都への出張は火曜日の朝に出発する予定です",
    "請求書の締め切りは月末なので早めに確認してください",
    "姉は緑茶が好きで雨の日には家で本を読みます",
    "ポンプの修理が保証の対象になるか供給業者に問い合わせました",
]


class Writer:
    """Draws ids, texts and times, the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.at = START

    def id(self) -> str:
        return str(UUID(int=self.random.getrandbits(128), version=4))

    def text(self, words: int | None = None) -> str:
        count = words or self.random.randint(4, 90)
        if self.random.random() < 0.5:
            return " ".join(self.random.choices(ENGLISH, k=count)) + f" {self.random.randint(0, 10**9)}."
        sentences = self.random.choices(JAPANESE, k=max(1, count // 15))
        return "。".join(sentences) + f"（{self.random.randint(0, 10**9)}番）。"

    def time(self) -> datetime:
        self.at += timedelta(seconds=self.random.randint(5, 90))
        return self.at

    def skip_day(self) -> None:
        self.at += timedelta(days=1)

    def iso(self) -> str:
        return self.time().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
