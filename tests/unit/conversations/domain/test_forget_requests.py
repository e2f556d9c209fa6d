"""Requests to forget, and everyday talk of forgetting, in English and Japanese (SPEC C9)."""

import json

import pytest
from django.conf import settings

from conversations.domain.forget_requests import asks_for_all, request_to_forget

REQUESTS = """
Forget my phone number.
Please forget what I told you about my salary.
Can you forget my old address?
Don't remember my password, please.
Please don't remember that I smoke.
I want you to forget everything about my divorce.
Forget everything you know about me.
Delete my birthday from your memory.
Could you erase what you know about my health?
Stop remembering my weight.
Please remove all memories about me.
Do not store my e-mail address.
You can forget that I live in Kyoto now.
forget about my ex
Hey, please forget the password I gave you.
Don't keep this conversation in memory.
Ok, forget that I ever mentioned my brother's illness.
I'd like you to forget my real name.
Please wipe everything you remember about my job.
Never save my address.
私の電話番号を忘れてください。
さっき話した病気のことは忘れてほしい。
年収のことは忘れてください
私の住所は覚えないでください。
昔の住所を記憶から消してください。
私についての記憶を削除して。
僕の本名は忘れてくれる？
パスワードは記録しないで
離婚の話は忘れてね
彼女のことはもう忘れてほしいです
この会話は保存しないでください。
私の誕生日を覚えておかないで。
あの番号は忘れてもらえますか？
家族のことは記憶しないでください。
前の会社のことは忘れてください。
昨日言ったことは全部忘れてください
私がたばこを吸うことは忘れて下さい。
体重は覚えなくていいです。
息子の学校名をメモリから削除してください。
私の情報を忘れていただけますか。
""".strip().splitlines()

OTHERS = """
Don't forget to buy milk.
I forgot my keys again.
I always forget my password, what should I do?
Forget Python, let's use Rust.
Forget it.
Forget about it, I'll do it myself.
Never forget that I love you.
Don't let me forget my appointment.
How do I make git forget my credentials?
I will never forget my first trip to Kyoto.
Why do people forget names?
Did you forget my question?
Do you remember my cat's name?
I don't remember my old number.
Please remember my birthday.
Delete the file from the folder.
How do I remove an object from memory in C++?
Don't save my changes to the file.
Do not store passwords in plain text.
Cookies should not be stored.
Don't mention it.
Don't use it.
Don't keep it too long.
Never mind, don't bring it up.
Never store secrets in a repository.
Forget that, I meant the other one.
Forget my last message.
Forget what I said.
Forget to mention it and you are fired.
Let's forget about my mistakes and have fun.
"Forget my number", she said to him.
He told her to forget his phone number.
What happens when I forget my PIN?
Clear the cache, please.
Erase the whiteboard.
Stop recording the screen.
Can you keep my place in the queue?
Don't keep me waiting.
I can't remember my dream.
Forget the diet, let's eat cake.
Could you forget the second paragraph and rewrite the first?
Unforgettable evening with my family!
Remove my name from the list of attendees in this text.
宿題を忘れてしまいました。
牛乳を買うのを忘れないでください。
忘れてた、明日は会議だ。
嫌なことは忘れて、飲みに行こう。
財布を電車に忘れて困っています。
名前を忘れてしまった。
彼の顔が忘れられない。
パスワードを忘れた場合はどうすればいいですか？
約束を忘れていました。
忘れ物をしました。
私の名前を覚えていますか？
電話番号を覚えてください。
ファイルを保存しないでエディタを閉じたい。
記憶に残る旅行だった。
変更を保存しないで終了しました。
単語がなかなか覚えられない。
母の誕生日を忘れないように教えて。
忘れてはいけないことは何ですか。
痛みを忘れて走った。
時間を忘れて読んだ。
彼は私のことを忘れていると思う。
昔のことはもう忘れてしまったよ。
""".strip().splitlines()


@pytest.mark.parametrize("text", REQUESTS)
def test_a_request_is_recognised(text: str) -> None:
    assert request_to_forget(text)
    assert request_to_forget(f"Thank you. {text}" if text.isascii() else f"ありがとう。{text}")


@pytest.mark.parametrize("text", OTHERS)
def test_everyday_talk_is_none(text: str) -> None:
    assert request_to_forget(text) == ""


def test_what_is_asked_is_returned_in_its_words() -> None:
    assert request_to_forget("Please forget my phone number!") == "my phone number"
    assert request_to_forget("Delete my birthday from your memory, please.") == "my birthday"
    assert request_to_forget("私の電話番号を忘れてください。") == "私の電話番号"


@pytest.mark.parametrize(
    ("text", "is_all"),
    [
        ("Forget everything you know about me.", True),
        ("Please delete all my personal data.", True),
        ("Wipe all the memories of me.", True),
        ("I want everything about my divorce gone.", False),
        ("Forget my phone number.", False),
        ("Forget everything.", False),
        ("Forget everything and let's start over.", False),
        ("Forget everything we talked about, here is a new task.", False),
        ("私についての記憶を全部削除して。", True),
        ("今までの私のこと全部忘れて", True),
        ("私の誕生日は忘れてください。", False),
    ],
)
def test_everything_or_something(text: str, is_all: bool) -> None:
    assert asks_for_all(request_to_forget(text)) == is_all


def test_a_pasted_text_asks_for_nothing() -> None:
    assert request_to_forget("Forget my phone number. " + "x" * 600) == ""


def test_requests_that_others_wrote() -> None:
    """Messages of people who had not seen the code; the patterns were extended by them since."""
    written = json.loads((settings.BASE_DIR / "tests" / "data" / "forget_requests.json").read_text("utf-8"))
    assert len([text for text in written["requests"] if request_to_forget(text)]) >= 365
    assert len([text for text in written["others"] if request_to_forget(text)]) <= 2


def test_what_is_kept_elsewhere_or_was_asked_by_another_is_no_request() -> None:
    assert request_to_forget("Nothing of my order was stored in the database.") == ""
    assert request_to_forget("My boss said no notes are kept.") == ""


@pytest.mark.parametrize(
    "text",
    ["を忘れて", "忘れてください", "保存しないで", "記憶から消して", "忘れてくれと言われた", "I do not remember me"],
)
def test_a_verb_without_an_object_asks_for_nothing(text: str) -> None:
    assert request_to_forget(text) == ""
