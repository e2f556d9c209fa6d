"""Texts that state the same fact in nearly the same words.

The tables are the evaluation: a pair of `SAME` is near, one of `MISSED` should be and is not, one of
`DIFFERENT` must never be. The held-out tables were written when the module was finished, and nothing was changed
for them. A first held-out table of 30 pairs a language found 26 of 30 and one false pair; what it taught was put
into the module, and its pairs stand in the tables above.
"""

import time
from collections import Counter
from itertools import chain
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.search.analysis import analyse
from memoryhub.search.bm25 import DIMENSION, inverse_document_frequency, term_id, term_ids
from strength.domain.duplicates import (
    DUPLICATE_THRESHOLD,
    MAX_CHARACTERS,
    MAX_ORDERED_WORDS,
    MAX_TERMS,
    Fingerprint,
    fingerprint,
    likeness,
    wording_digest,
)

Pairs = list[tuple[str, str]]

SAME_ENGLISH: Final[Pairs] = [
    ("The user likes coffee.", "the user likes coffee"),
    ("The user likes coffee", "The user really likes coffee!"),
    ("The user likes coffee", "The user said that they like coffee very much."),
    ("The user likes coffee.", "Coffee is what the user likes."),
    ("The user's favourite drink is coffee", "User's favorite drink: coffee"),
    ("Coffee is the user's favourite drink.", "The user's favorite drink is coffee."),
    ("The user doesn't eat meat", "The user does not eat meat."),
    ("The user can't swim", "The user cannot swim"),
    ("The user has two cats.", "User has 2 cats"),
    ("The user moved to Osaka in May 2023.", "In May 2023, the user moved to Osaka."),
    ("The user is allergic to nuts", "User is allergic to nuts!!"),
    ("The user deploys on Friday", "The user deploys on Fridays"),
    ("Anna pays Ben every month", "Every month Anna pays Ben."),
    ("Anna’s brother works at Siemens", "anna's brother works at SIEMENS"),
    ("The user bought a red bicycle", "The user buys a red bicycle"),
    ("The user has been working as a nurse", "The user works as a nurse"),
    ("I prefer tea to coffee", "The user prefers tea to coffee"),
    ("The meeting starts at 9:00 am", "The meeting starts at 9 am"),
    ("The project uses PostgreSQL 16 as its database", "Project uses PostgreSQL 16 as the database"),
    ("The user's children go to school in Kobe", "The user's children went to school in Kobe"),
    ("The user is currently learning Spanish", "The user is learning Spanish"),
    ("The user no longer drinks alcohol", "The user does not drink alcohol anymore"),
    ("The user organises a book club on Sundays", "The user organizes a book club on Sundays"),
    ("It's the user's birthday on 5 May", "The user's birthday is May 5th"),
    ("User lives in Tokyo with their wife and 2 kids", "The user lives in Tokyo with his wife and two kids"),
    ("The user mentioned that her dog is called Momo", "The user's dog is called Momo"),
    ("Prefers dark mode in the editor", "The user prefers dark mode in the editor."),
    ("The user would like to learn piano", "The user wants to learn the piano"),
    ("The user has got a dog", "The user has a dog"),
    ("The user stopped smoking in 2019", "The user quit smoking in 2019"),
    ("The user said that Anna is allergic to cats", "Anna is allergic to cats"),
    ("The user's wife is named Claire.", "User's wife is named Claire"),
    ("The user hates being called on the phone", "The user really hates being called on the phone."),
    ("User is a vegetarian.", "The user is vegetarian"),
    ("The user runs five kilometres every morning", "The user runs 5 kilometers every morning."),
    ("The user's car is a blue Volvo", "The user has a blue Volvo as a car"),
    ("The user told me that her flight leaves at 14:20", "The user's flight leaves at 14:20"),
    ("The team meets on Tuesdays at 10 am", "On Tuesday at 10 am the team meets"),
    ("The user won't work at weekends", "The user will not work on weekends"),
    ("The user must take insulin twice a day", "The user has to take insulin twice a day"),
    ("The user grew up in Dublin", "User grew up in Dublin, as they mentioned."),
    ("Tests are written with pytest", "The tests are written with pytest."),
    ("The user never uses tabs for indentation", "The user does not use tabs for indentation"),
    ("The user plays the piano", "The user is playing piano"),
    ("The user has an appointment with Dr. Meyer on 3 June", "User's appointment with Dr Meyer is on June 3"),
]
"""Near words, and found."""

MISSED_ENGLISH: Final[Pairs] = [
    ("The user enjoys hiking", "The user loves hiking"),
    ("The user works as a nurse", "The user's job is nurse"),
    ("The user is going to visit Kyoto in April", "The user will visit Kyoto in April"),
    ("Billing service is owned by the payments team", "The payments team owns the billing service"),
]
"""The same fact, and not found: a synonym, another construction, a passive."""

DIFFERENT_ENGLISH: Final[Pairs] = [
    ("The user lives in Osaka", "The user lives in Kyoto"),
    ("The user was born in May", "The user was born in June"),
    ("The user likes coffee", "The user dislikes coffee"),
    ("The user likes coffee", "The user doesn't like coffee"),
    ("The user likes coffee", "The user likes tea"),
    ("The user takes the pill before breakfast", "The user takes the pill after breakfast"),
    ("Anna pays Ben", "Ben pays Anna"),
    ("Anna's brother pays Ben", "Ben's brother pays Anna"),
    ("The user moved to Osaka", "The user moved from Osaka"),
    ("The user moved from Osaka to Kyoto", "The user moved from Kyoto to Osaka"),
    ("The user is allergic to nuts", "The user is allergic to shellfish"),
    ("The user deploys on Friday", "The user deploys on Monday"),
    ("The user prefers tea to coffee", "The user prefers coffee to tea"),
    ("Anna is taller than Ben", "Ben is taller than Anna"),
    ("The user has two cats", "The user has three cats"),
    ("The user has 2 cats", "The user has 2 dogs"),
    ("The user wakes up at 6:30", "The user wakes up at 7:30"),
    ("The user programs in C", "The user programs in C++"),
    ("The user can swim", "The user cannot swim"),
    ("The user visited Kyoto", "The user wants to visit Kyoto"),
    ("The user might move to Osaka", "The user moves to Osaka"),
    ("Anna likes coffee", "The user likes coffee"),
    ("The user's brother likes coffee", "The user likes coffee"),
    ("Ben is the user's boss", "The user is Ben's boss"),
    ("The user drinks coffee with milk", "The user drinks coffee without milk"),
    ("The user writes a weekly report to Anna at work", "The user writes a weekly note to Anna at work"),
    ("The rent is 1.5 million yen", "The rent is 15 million yen"),
    ("The budget is $500", "The budget is €500"),
    ("He likes coffee", "She likes coffee"),
    ("Anna is paid by Ben", "Anna pays Ben"),
    ("The user works for Anna", "Anna works for the user"),
    ("The user gave Anna a book", "Anna gave the user a book"),
    ("The user likes Anna's cake", "The user likes Ben's cake"),
    ("The user quit smoking", "The user started smoking"),
    ("Never call the user at work", "Call the user at work"),
    ("The user always drinks tea", "The user sometimes drinks tea"),
    (
        "The user used to live in Osaka with his parents near the big river",
        "The user lives in Osaka with his parents near the big river",
    ),
    (
        "The user stopped taking the blue pill at breakfast for her heart",
        "The user takes the blue pill at breakfast for her heart",
    ),
    ("The user talks about Anna", "The user talks with Anna"),
    (
        "The user's sister Anna teaches maths and physics at a school in Leeds",
        "The user's sister Anna teaches maths and physics at a school in York",
    ),
    ("Turn the heating on at night", "Turn the heating off at night"),
    ("The user lives in Osaka", "The user lives in Osaka with Anna"),
    ("The user's wife is named Claire", "The user's daughter is named Claire"),
    ("The user hates being called on the phone", "The user loves being called on the phone"),
    ("The flight leaves at 14:20", "The flight arrives at 14:20"),
    ("The user runs five kilometres every morning", "The user runs five miles every morning"),
    ("Tests must pass before a merge", "Tests must pass after a merge"),
    ("The user's car is blue", "The user's car is black"),
    ("Claire introduced Tom to Paul", "Claire introduced Paul to Tom"),
    ("The payments team blocks the search team", "The search team blocks the payments team"),
    ("The user uses tabs for indentation", "The user uses spaces for indentation"),
    ("The user lent Tom 100 euros", "The user borrowed 100 euros from Tom"),
    ("The user has an appointment on 3 June", "The user has an appointment on 4 June"),
    ("The user is afraid of dogs", "The user isn't afraid of dogs"),
    ("The service listens on port 8080", "The service listens on port 8081"),
    ("The user answers e-mails within a day", "The user answers e-mails within a week"),
    ("The key is under the mat", "The key is on the mat"),
]
"""Facts that differ in one thing."""

SAME_JAPANESE: Final[Pairs] = [
    ("ユーザーはコーヒーが好き", "ユーザーはコーヒーが好きです。"),
    ("ユーザーはコーヒーが好きだ", "ユーザはコーヒーがとても好きです"),
    ("ユーザーはコーヒーが好き", "ユーザーはコーヒーが好きだと言っていた。"),
    ("ユーザーはコーヒーが好き", "ユーザーはコーヒーを好む"),
    ("私はコーヒーが好きです", "ユーザーはコーヒーが好き"),
    ("ユーザーはコーヒーが好き", "コーヒーがユーザーは本当に好きです"),
    ("ユーザーは大阪に住んでいる", "ユーザーは大阪に住んでいます。"),
    ("ユーザーは大阪に住んでいる", "ユーザーは、大阪に住んでる"),
    ("ユーザーは5月に大阪へ引っ越した", "ユーザーは五月に大阪に引越しました"),
    ("ユーザーはナッツアレルギーがある", "ユーザーはナッツアレルギーです"),
    ("ユーザーは肉を食べない", "ユーザーは肉を食べません。"),
    ("ユーザーは猫を2匹飼っている", "ユーザーは猫を二匹飼っています"),
    ("毎週月曜日に会議がある", "毎週月曜に会議があります"),
    ("会議は毎朝10時に始まる", "毎朝10時に会議が始まります"),
    ("ユーザーはメールで連絡してほしい", "ユーザーはメールで連絡してほしいと言っていた"),
    ("アンナがベンに本を貸した", "アンナはベンに本を貸しました"),
    ("アンナがベンにお金を払う", "ベンにアンナがお金を払う"),
    ("ユーザーの名前は田中です", "ユーザーの名前は田中。"),
    ("ユーザーはりんごが好き", "ユーザーはりんごがすごく好きです"),
    ("ユーザーは日本語を勉強しています", "ユーザーは日本語を勉強している"),
    ("プロジェクトはPostgreSQLを使用する", "プロジェクトではPostgreSQLを使用しています"),
    ("ユーザーはABC株式会社で働いている", "ユーザーはＡＢＣ株式会社で働いている"),
    ("ユーザーは京都に行きたい", "ユーザーは京都へ行きたいと思っています"),
    ("ユーザーは返信が早い人を好む", "返信が早い人がユーザーは好き"),
    ("ユーザーは最近ギターを始めた", "ユーザーは最近、ギターを始めました"),
    ("ユーザーの妹は東京の大学に通っている", "ユーザーの妹は、東京の大学に通っています"),
    ("ユーザーは辛い物が苦手", "ユーザーは辛いものが苦手です"),
    ("ユーザーには子供が二人いる", "ユーザーには子どもが2人います"),
    ("ユーザーはタバコをやめた", "ユーザーはタバコをやめました"),
    ("ユーザーはいぬがすき", "ユーザーはいぬがすきです"),
    ("毎朝ユーザーは公園を走る", "ユーザーは毎朝公園を走ります"),
    ("ユーザーは来週、東京に出張する予定", "ユーザーは来週東京へ出張する予定です"),
    ("ユーザーによると、アンナは医者だ", "アンナは医者である"),
    ("ユーザーはりんごをたべる", "ユーザーはりんごをたべます"),
    ("ユーザーの妻の名前は花子です", "ユーザーの妻の名前は花子"),
    ("ユーザーは電話が苦手だ", "ユーザーは電話がとても苦手です"),
    ("ユーザーは毎朝5キロ走る", "ユーザーは毎朝５キロ走っています"),
    ("ユーザーの車は青いボルボだ", "ユーザーの車は青いボルボである。"),
    ("火曜日の10時にチームの会議がある", "チームの会議は火曜の10時にある"),
    ("ユーザーは週末に働きたくない", "ユーザーは週末には働きたくありません"),
    ("ユーザーは毎日インスリンを打たなければならない", "ユーザーは毎日インスリンを打たなければなりません"),
    ("ユーザーは福岡で育った", "ユーザーは福岡で育ちました"),
    ("テストはpytestで書く", "テストはpytestで書いています"),
    ("ユーザーはピアノを弾くのが趣味", "ユーザーの趣味はピアノを弾くこと"),
    ("ユーザーは六月三日に歯医者の予約がある", "6月3日にユーザーは歯医者の予約があります"),
    ("ユーザーは敬語を使わないでほしい", "ユーザーは敬語を使わないでほしいと話していた"),
    ("ユーザーは朝が弱い", "ユーザーは朝に弱いです"),
    ("ユーザーはカメラを買いたいと思っている", "ユーザーはカメラを買いたがっている"),
]
"""Near words, and found."""

MISSED_JAPANESE: Final[Pairs] = [
    ("ユーザーは看護師として働いている", "ユーザーの仕事は看護師"),
    ("ユーザーは紅茶が好き", "ユーザーは紅茶を愛している"),
    ("ユーザーはおさけがのめない", "ユーザーはお酒が飲めない"),
]
"""The same fact, and not found: a synonym, another construction, kana for kanji."""

DIFFERENT_JAPANESE: Final[Pairs] = [
    ("ユーザーは大阪に住んでいる", "ユーザーは京都に住んでいる"),
    ("ユーザーは5月に生まれた", "ユーザーは6月に生まれた"),
    ("ユーザーは五月に生まれた", "ユーザーは六月に生まれた"),
    ("ユーザーはコーヒーが好き", "ユーザーはコーヒーが嫌い"),
    ("ユーザーはコーヒーが好き", "ユーザーはコーヒーが好きではない"),
    ("ユーザーはコーヒーが好き", "ユーザーは紅茶が好き"),
    ("ユーザーは食前に薬を飲む", "ユーザーは食後に薬を飲む"),
    ("アンナがベンに払う", "ベンがアンナに払う"),
    ("アンナはベンが好き", "ベンはアンナが好き"),
    ("大阪から京都へ引っ越した", "京都から大阪へ引っ越した"),
    ("福岡から静岡へ出張した", "静岡から福岡へ出張した"),
    ("ユーザーは大阪へ引っ越した", "ユーザーは大阪から引っ越した"),
    ("ユーザーはナッツアレルギーがある", "ユーザーは卵アレルギーがある"),
    ("金曜日にデプロイする", "月曜日にデプロイする"),
    ("ユーザーへはメールで連絡する", "ユーザーへは電話で連絡する"),
    ("ユーザーは肉を食べる", "ユーザーは肉を食べない"),
    ("ユーザーは朝食を食べずに出勤する", "ユーザーは朝食を食べて出勤する"),
    ("コーヒーより紅茶が好き", "紅茶よりコーヒーが好き"),
    ("ユーザーは猫を飼っている", "ユーザーは犬を飼っている"),
    ("彼はねこが好き", "彼はいぬが好き"),
    ("ユーザーはりんごが好き", "ユーザーはみかんが好き"),
    ("ユーザーは東京都に住んでいる", "ユーザーは京都に住んでいる"),
    ("ユーザーは京都に行った", "ユーザーは京都に行きたい"),
    ("明日は出社しなければならない", "明日は出社しない"),
    ("会議は9時から始まる", "会議は9時まで続く"),
    ("締め切りは3月5日", "締め切りは5月3日"),
    ("アンナの上司はベンです", "ベンの上司はアンナです"),
    ("ユーザーの兄は医者だ", "ユーザーの弟は医者だ"),
    ("ユーザーはアンナの上司だ", "アンナはユーザーの上司だ"),
    ("ユーザーは毎朝走る", "ユーザーは毎晩走る"),
    ("ユーザーはタバコをやめた", "ユーザーはタバコを始めた"),
    ("母は看護師だ", "父は看護師だ"),
    ("来週東京に行く", "先週東京に行った"),
    ("アンナはベンに褒められた", "アンナはベンを褒めた"),
    ("ユーザーは車を持っている", "ユーザーは車を売った"),
    ("ユーザーはたばこをすう", "ユーザーはたばこをすわない"),
    ("ユーザーはいぬがすき", "ユーザーはいぬがきらい"),
    ("ユーザーはいぬがすき", "ユーザーにはいぬがいる"),
    ("ユーザーは右利きだ", "ユーザーは左利きだ"),
    ("ユーザーは大阪に住んでいる", "ユーザーは大阪に住んでいた妹がいる"),
    ("ユーザーは週3回泳ぐ", "ユーザーは週5回泳ぐ"),
    ("彼は会社員だ", "彼女は会社員だ"),
    ("ユーザーの妻の名前は花子です", "ユーザーの娘の名前は花子です"),
    ("ユーザーは電話が苦手だ", "ユーザーは電話が得意だ"),
    ("飛行機は14時20分に出発する", "飛行機は14時20分に到着する"),
    ("ユーザーは毎朝5キロ走る", "ユーザーは毎朝5キロ歩く"),
    ("ユーザーの車は青い", "ユーザーの車は黒い"),
    ("太郎が花子に次郎を紹介した", "太郎が次郎に花子を紹介した"),
    ("決済チームは検索チームを待っている", "検索チームは決済チームを待っている"),
    ("ユーザーは太郎に本を貸した", "ユーザーは太郎に本を借りた"),
    ("予約は6月3日", "予約は6月4日"),
    ("ユーザーは犬が怖い", "ユーザーは犬が怖くない"),
    ("会議の前に資料を送る", "会議の後に資料を送る"),
    ("ユーザーは敬語を使ってほしい", "ユーザーは敬語を使わないでほしい"),
    ("ユーザーはおちゃがすき", "ユーザーはおさけがすき"),
    ("ユーザーは朝に強い", "ユーザーは朝に弱い"),
    ("ユーザーは株を買った", "ユーザーは株を売った"),
]
"""Facts that differ in one thing."""

HELD_OUT_SAME_ENGLISH: Final[Pairs] = [
    ("The user's native language is Portuguese.", "User's native language: Portuguese"),
    ("The user graduated from MIT in 2011", "In 2011 the user graduated from MIT."),
    ("The user's team is using Kubernetes for staging", "The user's team uses Kubernetes for staging."),
    ("The user doesn’t want to be contacted after 8 pm", "The user does not want to be contacted after 8pm"),
    ("The user likes spicy food a lot", "The user likes spicy foods"),
    ("Their landlord raised the rent to 1,200 euros", "The landlord raised the rent to 1200 euros"),
    ('The user said: "I sold my motorbike"', "The user sold their motorbike"),
    ("Answers should be short and in bullet points", "Answers should be in bullet points and short"),
    ("The user keeps three chickens in the garden", "In the garden, the user keeps 3 chickens"),
    ("The user's mother has been living in Lisbon since 2018", "User's mother lives in Lisbon since 2018"),
    ("THE WIFI PASSWORD IS STORED IN THE VAULT", "The Wi-Fi password is stored in the vault"),
    ("The user can only meet on Thursdays", "The user can meet only on Thursday"),
    ("The user's brother-in-law Tom repairs bicycles", "Tom, the user's brother-in-law, repairs bicycles"),
]
"""Written when all was tuned, and never tuned to."""

HELD_OUT_MISSED_ENGLISH: Final[Pairs] = [
    ("The user is afraid of flying", "The user has a fear of flying"),
    ("The user is a big fan of jazz", "The user is a huge jazz fan"),
]
"""Of the held-out pairs those that are not found."""

HELD_OUT_DIFFERENT_ENGLISH: Final[Pairs] = [
    ("The user's native language is Portuguese", "The user's native language is Spanish"),
    ("The user graduated from MIT in 2011", "The user graduated from MIT in 2012"),
    ("The user's team is using Kubernetes for staging", "The user's team is using Kubernetes for production"),
    ("The user can be contacted until 8 pm", "The user can be contacted from 8 pm"),
    ("The user likes spicy food", "The user likes sweet food"),
    ("The landlord raised the rent to 1200 euros", "The landlord lowered the rent to 1200 euros"),
    ("The user sold the motorbike to Tom", "Tom sold the motorbike to the user"),
    ("Answers should be short", "Answers should be long"),
    (
        "Tom's mother lives in Lisbon and Eva's mother in Porto",
        "Eva's mother lives in Lisbon and Tom's mother in Porto",
    ),
    ("The user is a fan of jazz", "The user is not a fan of jazz"),
    ("The user meets the doctor weekly", "The user meets the doctor monthly"),
    ("The user's older brother repairs bicycles", "The user's younger brother repairs bicycles"),
    ("Deploy to staging first, then to production", "Deploy to production first, then to staging"),
    ("The user needs at least 7 hours of sleep", "The user needs at most 7 hours of sleep"),
    ("The user trusts Eva more than Tom", "The user trusts Tom more than Eva"),
]
"""Written when all was tuned, and never tuned to."""

HELD_OUT_SAME_JAPANESE: Final[Pairs] = [
    ("ユーザーの母語はポルトガル語です。", "ユーザーの母語はポルトガル語"),
    ("ユーザーは2011年に大学を卒業した", "2011年にユーザーは大学を卒業しました"),
    ("チームはステージングにKubernetesを使っている", "チームはステージングにKubernetesを使います"),
    ("ユーザーは20時以降は連絡してほしくない", "ユーザーは20時以降に連絡してほしくないと言っている"),
    ("ユーザーは辛い料理がすごく好き", "ユーザーは辛い料理が好きです"),
    ("家賃が12万円に上がった", "家賃は12万円に上がりました"),
    ("回答は短く箇条書きにする", "回答は箇条書きで短くする"),
    ("ユーザーは庭で鶏を三羽飼っている", "ユーザーは鶏を3羽、庭で飼っています"),
    ("ユーザーの母は2018年からリスボンに住んでいる", "ユーザーの母は2018年からリスボンに住んでいます"),
    ("ユーザーはジャズの大ファンだ", "ユーザーはジャズの大ファンです！"),
    ("ユーザーは木曜日しか会えない", "ユーザーは木曜しか会えません"),
    ("ユーザーは車の運転ができない", "ユーザーは車の運転ができません"),
    ("ユーザーはたまねぎをたべない", "ユーザーはたまねぎをたべません"),
]
"""Written when all was tuned, and never tuned to."""

HELD_OUT_MISSED_JAPANESE: Final[Pairs] = [
    ("ユーザーはバイクを売った", "ユーザーはバイクを売ってしまった"),
    ("ユーザーはパクチーが嫌いだ", "ユーザーはパクチーが大嫌いだ"),
]
"""Of the held-out pairs those that are not found."""

HELD_OUT_DIFFERENT_JAPANESE: Final[Pairs] = [
    ("ユーザーの母語はポルトガル語です", "ユーザーの母語はスペイン語です"),
    ("ユーザーは2011年に大学を卒業した", "ユーザーは2012年に大学を卒業した"),
    ("チームは検証環境を使っている", "チームは本番環境を使っている"),
    ("20時までは連絡してよい", "20時からは連絡してよい"),
    ("ユーザーは辛い料理が好き", "ユーザーは甘い料理が好き"),
    ("家賃が12万円に上がった", "家賃が12万円に下がった"),
    ("ユーザーは太郎にバイクを売った", "太郎はユーザーにバイクを売った"),
    ("回答は短くする", "回答は長くする"),
    ("太郎の母はリスボンに、花子の母はポルトに住んでいる", "花子の母はリスボンに、太郎の母はポルトに住んでいる"),
    ("ユーザーは運転ができる", "ユーザーは運転ができない"),
    ("ユーザーは太郎より花子を信頼している", "ユーザーは花子より太郎を信頼している"),
    ("ユーザーは睡眠が7時間以上必要だ", "ユーザーは睡眠が7時間以下でよい"),
    ("ユーザーはたまねぎがきらい", "ユーザーはにんじんがきらい"),
    ("ユーザーは鍵を机の上に置く", "ユーザーは鍵を机の下に置く"),
    ("ユーザーは毎週医者に会う", "ユーザーは毎月医者に会う"),
]
"""Written when all was tuned, and never tuned to."""

SAME: Final = SAME_ENGLISH + SAME_JAPANESE + HELD_OUT_SAME_ENGLISH + HELD_OUT_SAME_JAPANESE
MISSED: Final = MISSED_ENGLISH + MISSED_JAPANESE + HELD_OUT_MISSED_ENGLISH + HELD_OUT_MISSED_JAPANESE
DIFFERENT: Final = DIFFERENT_ENGLISH + DIFFERENT_JAPANESE + HELD_OUT_DIFFERENT_ENGLISH + HELD_OUT_DIFFERENT_JAPANESE


def idf_of(texts: list[str]) -> dict[int, float]:
    """Return the idf of the terms of these texts, as search keeps it."""
    counts = Counter(chain.from_iterable(term_ids(analyse(text)) for text in texts))
    return {
        term: inverse_document_frequency(documents_with_term=count, documents=len(texts))
        for term, count in counts.items()
    }


TEXTS: Final = list(chain.from_iterable(SAME + MISSED + DIFFERENT))
UNIFORM: Final = dict.fromkeys(idf_of(TEXTS), 1.0)
CORPORA: Final = {"nothing known": {}, "all alike": UNIFORM, "user and likes are common": idf_of(TEXTS * 20)}

with_each_idf = pytest.mark.parametrize("idf", CORPORA.values(), ids=CORPORA.keys())


def is_near_text(one: str, other: str, idf: dict[int, float] | None = None) -> bool:
    return likeness(fingerprint(one), fingerprint(other), idf or {}) >= DUPLICATE_THRESHOLD


@with_each_idf
@pytest.mark.parametrize("pair", SAME, ids="/".join)
def test_near_words_are_near(pair: tuple[str, str], idf: dict[int, float]) -> None:
    assert is_near_text(*pair, idf)


@with_each_idf
@pytest.mark.parametrize("pair", DIFFERENT, ids="/".join)
def test_another_fact_is_not_near(pair: tuple[str, str], idf: dict[int, float]) -> None:
    assert not is_near_text(*pair, idf)


@pytest.mark.parametrize("pair", MISSED, ids="/".join)
def test_a_miss_that_is_found_moves_to_the_table_of_the_found(pair: tuple[str, str]) -> None:
    assert not is_near_text(*pair)


@with_each_idf
@pytest.mark.parametrize(
    ("same", "different", "least_recall"),
    [
        (SAME_ENGLISH + MISSED_ENGLISH, DIFFERENT_ENGLISH, 0.91),
        (SAME_JAPANESE + MISSED_JAPANESE, DIFFERENT_JAPANESE, 0.94),
        (HELD_OUT_SAME_ENGLISH + HELD_OUT_MISSED_ENGLISH, HELD_OUT_DIFFERENT_ENGLISH, 0.86),
        (HELD_OUT_SAME_JAPANESE + HELD_OUT_MISSED_JAPANESE, HELD_OUT_DIFFERENT_JAPANESE, 0.86),
    ],
    ids=["English", "Japanese", "held out English", "held out Japanese"],
)
def test_precision_and_recall_do_not_fall(
    same: Pairs, different: Pairs, least_recall: float, idf: dict[int, float]
) -> None:
    found = sum(is_near_text(*pair, idf) for pair in same)
    assert found / len(same) >= least_recall
    assert not any(is_near_text(*pair, idf) for pair in different)


def test_the_digest_overlooks_case_width_space_and_punctuation() -> None:
    assert fingerprint("ＡＢＣ社 の「Café」!").digest == fingerprint("abc社の cafe。").digest


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1.5", "15"),
        ("3 5", "35"),
        ("-5", "5"),
        ("uses C", "uses C#"),
        ("uses C++", "uses C#"),
        ("$5", "€5"),
        ("5%", "5"),
        ("costs €", "costs $"),
        ("😀", "😢"),
        ("takes < 5 ms", "takes > 5 ms"),
        ("costs 1.05 million", "costs 1.5 million"),
        ("takes 1/2 pill", "takes 1.2 pill"),
        ("दिन", "दान"),
        ("来ると言った", "来ると言わなかった"),
        ("Anna pays Ben", "Ben pays Anna"),
    ],
)
def test_the_digest_tells_apart_what_means_something_else(one: str, other: str) -> None:
    assert fingerprint(one).digest != fingerprint(other).digest
    assert not is_near_text(one, other)


@pytest.mark.parametrize(
    ("one", "other"), [("", "the"), ("the", "of"), ("not", "no"), ("は", "です"), ("I", "the user")]
)
def test_texts_that_are_about_nothing_are_near_only_when_equal(one: str, other: str) -> None:
    assert not is_near_text(one, other)
    assert is_near_text(one, one.upper() + " !")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("二〇二四年に三百二十人", "2024年に320人"),
        ("十時三十分に起きる", "10:30時に起きる"),
        ("3ヶ月の契約", "3か月の契約"),
        ("the 05 May run", "the 5 May run"),
        ("-5 degrees", "-05 degrees"),
        ("on 2024-05-03", "on 2024/5/3"),
    ],
)
def test_a_number_is_the_same_however_it_is_written(one: str, other: str) -> None:
    assert fingerprint(one).marks == fingerprint(other).marks


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("しなければならない", {"must"}),
        ("しなければなりません", {"must"}),
        ("来るかもしれない", {"may"}),
        ("肉しか食べない", {"only", "not"}),
        ("必ず歩く", set()),
        ("少ない", set()),
        ("飲まずに寝る", {"not"}),
        ("見ずに買う", {"not"}),
        ("行きたくない", {"not"}),
        ("行きたい", {"want"}),
        ("だいたい冷たい", set()),
        ("駅から歩く", {"from"}),
        ("it can't", {"can", "not"}),
        ("I won't", {"not"}),
        ("not from $5", {"not", "from", "$", "5"}),
    ],
)
def test_marks_are_what_must_not_differ(text: str, marks: set[str]) -> None:
    assert fingerprint(text).marks == set(map(term_id, marks))


def test_terms_carry_the_ids_that_search_has() -> None:
    for text in ("The user likes running", "コーヒー好", "東京都"):
        assert fingerprint(text).terms <= set(term_ids(analyse(text)))


def test_kana_words_keep_their_ends() -> None:
    assert fingerprint("りんごをたべる").terms == {term_id("りんご"), term_id("たべ")}
    assert fingerprint("わたしの本").terms == {term_id("本")}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("紅茶とコーヒーが好き", "コーヒーと紅茶が好き"),
        ("likes tea and coffee", "likes coffee and tea"),
        ("The user met Anna in Osaka in May", "The user met Anna in May in Osaka"),
        ("lives in Kyoto and works in Osaka", "works in Osaka and lives in Kyoto"),
    ],
)
def test_a_phrase_that_moves_as_a_whole_changes_nothing(one: str, other: str) -> None:
    assert is_near_text(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The user works in Osaka and lives in Kyoto", "The user works in Kyoto and lives in Osaka"),
        ("Anna likes tea and Ben likes coffee", "Anna likes coffee and Ben likes tea"),
        ("アンナは紅茶、ベンはコーヒーが好き", "アンナはコーヒー、ベンは紅茶が好き"),
        ("staging: 80, production: 443", "staging: 443, production: 80"),
    ],
)
def test_words_that_change_places_make_another_fact(one: str, other: str) -> None:
    assert likeness(fingerprint(one), fingerprint(other), {}) == 0


def test_a_word_more_is_borne_among_seven_and_not_among_five() -> None:
    backup = "The nightly backup of the production database runs on a server"
    assert is_near_text(f"{backup} in Frankfurt", f"{backup.replace('runs', 'usually runs')} in Frankfurt")
    assert not is_near_text("Anna runs a backup server in Frankfurt", "Anna usually runs a backup server in Frankfurt")


def test_a_common_word_more_is_borne_sooner_than_a_rare_one() -> None:
    one, other = fingerprint("Anna plays tennis"), fingerprint("Anna often plays tennis")
    common = dict.fromkeys(one.terms, 5.0) | {term_id("often"): 0.5}
    assert likeness(one, other, dict.fromkeys(one.terms, 5.0)) == pytest.approx(6 / 7)
    assert likeness(one, other, common) == pytest.approx(30 / 30.5)
    assert likeness(one, other, {}) < DUPLICATE_THRESHOLD <= likeness(one, other, common)


def test_a_word_replaced_is_borne_in_a_page_and_not_in_a_paragraph() -> None:
    words = [f"w{chr(97 + number % 26)}{chr(97 + number // 26)}x" for number in range(200)]
    assert not is_near_text(" ".join([*words[:40], "osaka"]), " ".join([*words[:40], "kyoto"]))
    assert is_near_text(" ".join([*words, "osaka"]), " ".join([*words, "kyoto"]))


def test_a_long_text_keeps_bounded_terms_and_no_order() -> None:
    found = fingerprint(" ".join(f"word{chr(97 + number % 26)}{chr(97 + number // 26)}" for number in range(600)))
    assert len(found.terms) == MAX_TERMS
    assert found.order == ()
    assert len(fingerprint("Anna " * MAX_ORDERED_WORDS).order) == MAX_ORDERED_WORDS


def test_many_numbers_are_kept_as_one_mark() -> None:
    numbers = list(map(str, range(2 * MAX_TERMS)))
    assert len(fingerprint(" ".join(numbers)).marks) == 1
    assert not is_near_text("Sold: " + " ".join(numbers), "Sold: " + " ".join([*numbers[:-1], "9999"]))


def test_a_text_beyond_the_limit_is_recognised_word_for_word_only() -> None:
    text = "Anna likes tea. " * (MAX_CHARACTERS // 10)
    assert fingerprint(text).terms == frozenset()
    assert is_near_text(text, text.upper())
    assert not is_near_text(text, text + "Really.")


@pytest.mark.parametrize(
    "piece", ["あ", "で", "しか", "と言", "漢", "一", "a'", "- ", "1.", "を", "Anna ", "\u0301", "\ud800"]
)
@pytest.mark.parametrize("length", [MAX_CHARACTERS - 1, 100_000])
def test_time_is_linear_in_the_text(piece: str, length: int) -> None:
    started = time.process_time()
    fingerprint(piece * (length // len(piece)))
    assert time.process_time() - started < 1


def test_the_ids_fit_an_integer_of_postgresql() -> None:
    found = fingerprint("Anna's brother isn't from Osaka at 9:30 $")
    assert all(0 <= number < 2 * DIMENSION <= 2**31 for number in (*found.terms, *found.marks, *found.order))
    assert found.order[1] >= DIMENSION > found.order[0]


def test_a_fingerprint_that_was_stored_without_its_order_compares_by_words() -> None:
    one, other = fingerprint("Anna likes tea"), fingerprint("Anna really likes tea")
    stored = Fingerprint(other.digest, other.terms, other.marks)
    assert likeness(one, stored, {}) >= DUPLICATE_THRESHOLD


WORDS: Final = [
    "Anna",
    "Ben",
    "pays",
    "likes",
    "not",
    "from",
    "to",
    "the user",
    "3",
    "in",
    "京都",
    "に",
    "が",
    "好き",
    "を",
    "りんご",
]
TEXT: Final = st.lists(st.sampled_from(WORDS)).map(" ".join) | st.text(max_size=40)


@given(TEXT, TEXT)
def test_likeness_is_symmetrical_and_between_zero_and_one(one: str, other: str) -> None:
    first, second = fingerprint(one), fingerprint(other)
    value = likeness(first, second, UNIFORM)
    assert 0 <= value <= 1
    assert value == pytest.approx(likeness(second, first, UNIFORM))
    assert likeness(first, first, UNIFORM) == 1


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("The user likes coffee.", "the user really likes COFFEE!!", True),
        ("User lives in Ｔｏｋｙｏ", "user lives in tokyo。", True),
        ("The user is very fond of tea", "The user is fond of tea", True),
        ("ユーザーはコーヒーが好き。", "ユーザーはコーヒーが本当に好き", True),
        ("ユーザーはコーヒーがまじで好き", "ユーザーはコーヒーがとても好き！", True),
        ("ユーザーはｺｰﾋｰが好き", "ユーザーはコーヒーがめっちゃ好き", True),
        ("The user lives in Kyoto", "The user lived in Kyoto", False),
        ("The user is married", "The user was married", False),
        ("The user likes coffee", "The user loves coffee", False),
        ("The user does not like tea", "The user does not really like tea", False),
        ("The user isn't very tall", "The user isn't tall", False),
        ("ユーザーは本当に好きではない", "ユーザーは好きではない", False),
        ("The user knows C", "The user knows C#", False),
        ("Rent is 1.5 million", "Rent is 15 million", False),
    ],
)
def test_wording_differs_by_more_than_punctuation_and_emphasis(one: str, other: str, is_same: bool) -> None:
    assert (wording_digest(one) == wording_digest(other)) is is_same
