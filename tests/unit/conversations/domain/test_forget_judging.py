import json

from django.conf import settings

from conversations.domain.forget_judging import may_ask_to_forget, question_blocks, requests_found


def test_a_model_is_asked_about_nearly_all_requests() -> None:
    written = json.loads((settings.BASE_DIR / "tests" / "data" / "forget_requests.json").read_text("utf-8"))
    assert len([text for text in written["requests"] if not may_ask_to_forget(text)]) <= 4
    assert not any(
        map(may_ask_to_forget, ("I had tea with my sister.", "京都に行きました。", "Forget me. " + "x" * 600))
    )


def test_what_a_model_finds() -> None:
    said = ["Where are my keys?", "My surgery: let it go.", "Lose all of it."]
    found = [
        (2, "forget", " my surgery "),
        (1, "forget", "everything about me"),
        (4, "forget", "x"),
        (1, "edit", "keys"),
    ]
    found += [(3, "forget", "everything about me"), (2, "forget", " ")]
    answer = {"messages": [dict(zip(("message", "kind", "about"), each, strict=True)) for each in found]}
    assert requests_found(answer, said) == {1: "my surgery", 2: "everything about me"}
    assert question_blocks(["one\n2. two", "three"]) == {"messages": "1. one 2. two\n2. three"}
