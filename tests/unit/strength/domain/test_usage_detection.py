"""Offered memories that a result used: rules, and precision and recall on a table of cases.

The figures are of single memories. `TUNED` is what the constants were chosen on. `SEEN_ONCE` was written
afterwards as held out: precision 1.00 and recall 0.82 in English, 1.00 and 0.71 in Japanese; what it
missed led to one change (a word of one kanji weighs 0.6), so it is held out no longer. `FRESH` was
written after that change, and no constant was chosen on it (`MIN_SHARE_OF_WINDOW` came later from a
unit test, and changed no figure). All three have one author, who
knew the method: real results will paraphrase more.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.search.analysis import analyse
from memoryhub.search.bm25 import term_id
from strength.domain.usage_detection import (
    MAX_RESULT_CHARACTERS,
    MAX_RESULT_DEPTH,
    PASSAGE_CHARACTERS,
    Offered,
    passages,
    result_text,
    used_by_vectors,
    used_by_words,
)


@dataclass(frozen=True)
class Case:
    """A task, and the memories that its result used among those offered."""

    query: str
    result: Any
    used: tuple[str, ...] = ()
    other: tuple[str, ...] = ()


TUNED_ENGLISH: Final = (
    Case(
        "plan an emergency procurement of valves",
        "I recommend calling Hanseatic Fittings first. Budget 15% on top of the list price for the rush.",
        used=("Emergency procurement costs about 15% more than regular orders.",
              "Hanseatic Fittings keeps DN50 valves in stock and ships the same day."),
        other=("Valves from Brunner leaked twice in 2023.", "Procurement requests above 10,000 EUR need two signatures."),
    ),
    Case(
        "why does the nightly import fail",
        "The nightly import fails because the CSV has a byte order mark. Strip it before parsing.",
        used=("A byte order mark in the CSV from the supplier broke the parser in May.",),
        other=("The nightly import starts at 02:00.", "Import jobs write their log to /var/log/import.",
               "Failing imports page the on-call engineer."),
    ),
    Case(
        "what should we cook for Anna on Saturday",
        "How about a mushroom risotto without cheese? Anna does not take lactose, and she loves mushrooms.",
        used=("Anna is lactose intolerant.", "Anna's favourite food is anything with mushrooms."),
        other=("Anna moved to Leipzig in spring.", "On Saturday the market closes at noon.", "Tom is allergic to peanuts."),
    ),
    Case(
        "which database should the new service use",
        "Use PostgreSQL for the new service. We already run it and pgvector covers the search.",
        used=("PostgreSQL with pgvector was fast enough for search over a million rows.",),
        other=("The new service will be written in Go.", "MongoDB was dropped in 2021 after two data losses.",
               "Database passwords are rotated every quarter."),
    ),
    Case(
        "write a summary of the kickoff meeting",
        "I have no notes about the kickoff meeting, so I cannot summarise it.",
        other=("The kickoff meeting agreed on a launch in October.", "Maria takes the minutes of every meeting.",
               "The meeting room on floor 3 has no projector."),
    ),
    Case(
        "How do I reset the router?",
        "To reset the router, reset it. If resetting the router does not help, contact support.",
        other=("Hold the router's pin button for 12 seconds to reset it.", "The router stands in the hallway cupboard.",
               "The provider's hotline is 0800 555 123."),
    ),
    Case(
        "When is the invoice for Miller due?",
        "The invoice for Miller is due on 14 March, 30 days after delivery.",
        used=("Miller pays 30 days after delivery.", "The last delivery to Miller was on 12 February, its invoice is due 14 March."),
        other=("Miller's office is in Bristol.", "Invoices are sent as PDF only."),
    ),
    Case(
        "set the HTTP client's timeout",
        "Set the timeout to 45 seconds; anything shorter cut off the report endpoint.",
        used=("With a timeout under 45 seconds the report endpoint was cut off.",),
        other=("The HTTP client retries three times by default.", "A timeout of 5 seconds suits health checks.",
               "The client library was upgraded to version 2.4."),
    ),
    Case(
        "choose the warehouse for Japanese customers",
        "Osaka.",
        used=("Japanese customers are served from the Osaka warehouse.",),
        other=("The Rotterdam warehouse handles customers in Europe.", "Warehouse staff work in two shifts.",
               "Japanese customers expect delivery within two days."),
    ),
    Case(
        "draft a reply to the complaint about late delivery",
        "Dear customer, we are sorry for the late delivery. As an apology you receive a voucher of 20 euros. "
        "I ignored the note about Friday's truck breakdown because it concerns another region.",
        used=("For complaints about late delivery we offer a voucher of 20 euros.",),
        other=("A truck breakdown on Friday delayed deliveries in the southern region.", "Complaints must be answered within 48 hours."),
    ),
    Case(
        "how many workers should gunicorn have",
        '{"workers": 9, "reason": "2 x cores + 1 with four cores", "source": "load test"}',
        used=("Our load test was best with 2 x cores + 1 gunicorn workers, nine on four cores.",),
        other=("Gunicorn logs go to stdout.", "Workers are restarted after 1000 requests.", "Celery has its own workers on another host."),
    ),
    Case(
        "explain our holiday policy",
        "Employees have 28 days of paid leave. Unused days expire at the end of March.",
        used=("Paid leave is 28 days a year.", "Leave that is not used by the end of March expires."),
        other=("The office is closed between Christmas and New Year.", "Holiday requests go to the team lead.",
               "Interns have 20 days of leave."),
    ),
    Case(
        "fix the flaky login test",
        "The test raced with the session cookie. I now wait for the redirect before reading the cookie; it passed 200 runs.",
        used=("The login page sets the session cookie only after the redirect, so tests must wait for it.",),
        other=("The login test is owned by the identity team.", "Flaky tests are quarantined after three failures.",
               "The staging server is slow on Monday mornings."),
    ),
    Case(
        "suggest a birthday present for Ken",
        "Ken collects vinyl records, so a first pressing of Kind of Blue would delight him. Miles Davis is his favourite musician.",
        used=("Ken collects vinyl records.", "Ken's favourite musician is Miles Davis."),
        other=("Ken's birthday is on 3 June.", "Ken got a coffee grinder last year.", "Ken works as a surveyor."),
    ),
    Case(
        "deploy the api to production",
        "Deployed the api to production. All checks are green.",
        other=("Deploys to production need a green pipeline and an approval by Ines.", "The api listens on port 8080.",
               "Production runs in eu-central-1.", "Last week's deploy was rolled back because of a missing index."),
    ),
    Case(
        "deploy the billing service",
        "I created the missing index on invoices before the rollout, because its absence forced a rollback last week.",
        used=("Last week's deploy of billing was rolled back because of a missing index on invoices.",),
        other=("The billing service is deployed on Tuesdays.", "Invoices are archived after ten years.",
               "The rollout takes about six minutes."),
    ),
    Case(
        "recommend a hotel in Vienna for the team",
        "Book Hotel Altstadt: it was quiet, and the team could walk to the conference centre. Avoid the Ringhof, "
        "where the wifi dropped during the last workshop.",
        used=("At Hotel Altstadt in Vienna we slept well, it is quiet.", "The wifi at the Ringhof dropped constantly during our workshop."),
        other=("Hotel bills above 150 euros a night need approval.", "The team has eleven members.", "Vienna is reached by night train."),
    ),
    Case(
        "optimise the slow report query",
        "A partial index on (tenant_id, closed_at) made it 40 times faster, from 12 s to 0.3 s.",
        used=("Partial indexes on tenant_id and closed_at speed up reports.",),
        other=("Reports are cached for an hour.", "Slow queries are logged above 500 ms.", "The reporting database is a replica."),
    ),
    Case(
        "What did the customer say about the price?",
        "The customer found the price too high and asked for a discount if they commit for two years.",
        used=("The customer would sign for two years in exchange for a discount.",),
        other=("The customer prefers calls in the morning.", "The price list changes in January.", "A competitor offered the customer a free pilot."),
    ),
    Case(
        "pick a colour for the warning banner",
        "I chose amber (#FFB000) with dark text, since red is reserved for errors and some users are colour blind.",
        used=("In our design system red is reserved for errors.", "Several users are colour blind."),
        other=("The banner component was written by Jonas.", "Warnings disappear after ten seconds.", "The logo is blue."),
    ),
    Case(
        "Is tea or coffee better for Anna?",
        "Anna prefers green tea, and in the afternoon she never drinks coffee.",
        used=("Anna drinks no coffee after noon, in the afternoon only green tea.",),
        other=("Tom prefers espresso.", "Anna is better at chess than Tom.", "The tea in the kitchen is restocked on Mondays."),
    ),
    Case("prepare the Q3 board report",
     "# Q3 board report\n\nRevenue rose to 4.2 million euros. The growth comes mostly from the Nordics, where two resellers signed in July.\n\n"
     "## Risks\nChurn among small customers remains above plan. We propose an annual plan with a lower entry price.\n\n"
     "## Outlook\nHiring stays frozen until the new year; the support team gets priority afterwards.",
     used=("Two resellers in the Nordics signed in July.", "There is a hiring freeze until the new year."),
     other=("The board meets on the second Thursday of the quarter.", "The board prefers charts to tables.", "Q2 revenue was 3.7 million euros.",
            "The CFO wants the report as a PDF with numbered pages.")),
    Case("which python version should the build image use",
     "Python 3.12, because numpy 2.1 has wheels for it and the build fleet is already patched.",
     used=("The build fleet has Python 3.12 patched and ready.",),
     other=("Python 3.9 images are deleted in October.", "Build images are built on Sundays.", "The build image is based on Debian.")),
    Case("translate the greeting into French",
     "Bonjour et bienvenue !",
     other=("The French office is in Lyon.", "Greetings should be formal in letters.", "The translator Claire works until 4 pm.")),
    Case("how do we handle refunds",
     "Refunds under 50 dollars are granted at once by support; above that, a supervisor has to agree.",
     used=("Support may refund up to 50 dollars without asking.", "Refunds above the support limit need a supervisor."),
     other=("Refunds take five working days to arrive.", "Support is open from 8 to 18.", "The refund rate was 2% in May.")),
    Case("review the pull request about caching",
     "The cache key leaves out the tenant, which leaked data between customers once already. Add the tenant id to the key, and set an expiry.",
     used=("A cache key without the tenant leaked data between customers in 2022.",),
     other=("Pull requests need one approval.", "The cache runs on Redis.", "Reviews should be done within a day.", "Keep pull requests below 400 lines.")),
    Case("plan the route for tomorrow's deliveries",
     "Start with the bakery, since they need the flour before six. Then go to the school; the bridge on Mill Lane is closed, so take the ring road.",
     used=("The bakery needs its flour before six in the morning.", "Mill Lane bridge is closed until June."),
     other=("The van was serviced in March.", "Deliveries to the school go to the back entrance.", "Tomorrow is Paul's day off.")),
    Case("find out who owns the payments module",
     "I could not determine the owner. The memories about the team offsite and the payments dashboard are not relevant.",
     other=("The team offsite is in Porto this year.", "The payments dashboard shows failed charges.", "The payments module was written in Kotlin.")),
    Case("name the meeting room for the interview",
     "Room Curie, because it is the only one with a door that closes and it seats six.",
     used=("Curie is the only room with a door that closes.",),
     other=("Room Bohr seats twelve.", "Interviews take an hour.", "Meeting rooms are booked in the calendar.", "The interview guide is on the wiki.")),
    Case("estimate the time for the migration",
     {"hours": 14, "steps": ["dump 3 h", "restore 9 h", "check 2 h"], "note": "restore was slower than the dump last time by factor three"},
     used=("Last time the restore took three times as long as the dump.",),
     other=("The migration window is Saturday night.", "Estimates are rounded up to full days.", "The old server has 64 GB of memory.")),
    Case("suggest a topic for the team talk",
     "A talk on feature flags would fit: several of us asked how the kill switch worked during the outage.",
     used=("During the outage the kill switch was what several people asked about.",),
     other=("Team talks take twenty minutes.", "The last talk was about testing.", "Talks are recorded.", "The team has a new designer.")),
)  # fmt: skip

TUNED_JAPANESE: Final = (
    Case(
        "緊急調達のコストを見積もる",
        "緊急調達のため、通常の1.5倍の費用を見込みます。15%の予備費も加えました。",
        used=("緊急調達は通常の1.5倍のコストがかかる。",),
        other=("調達先のA社は納期が遅れがちである。", "コスト会議は毎週火曜日に開かれる。", "見積書は部長の承認が必要である。"),
    ),
    Case(
        "夜間バッチが失敗する原因を調べる",
        "原因は文字コードでした。取引先のCSVがShift_JISで届いており、UTF-8として読むと失敗します。",
        used=("取引先から届くCSVはShift_JISである。",),
        other=("夜間バッチは午前2時に始まる。", "バッチのログは30日間保存される。", "失敗時には当番に電話が行く。"),
    ),
    Case(
        "田中さんとの会食の店を選ぶ",
        "田中さんは甲殻類アレルギーなので、寿司ではなく焼き鳥の店にします。個室のある「鳥善」を予約しましょう。",
        used=("田中さんはエビやカニなどの甲殻類にアレルギーがある。", "「鳥善」は個室があり、接待に使える。"),
        other=("田中さんは大阪支社から転勤してきた。", "会食の費用は一人8000円までである。", "佐藤さんはお酒を飲まない。"),
    ),
    Case(
        "新しいサービスのデータベースを選ぶ",
        "PostgreSQLを使いましょう。pgvectorでベクトル検索もでき、運用の経験もあります。",
        used=("PostgreSQLとpgvectorで百万件のベクトル検索が十分速かった。",),
        other=("新しいサービスはGoで書く予定である。", "MongoDBは障害が続いて2021年に廃止した。", "データベースのパスワードは四半期ごとに変える。"),
    ),
    Case(
        "キックオフ会議の要約を書く",
        "キックオフ会議の記録が見つからないため、要約を書くことができませんでした。",
        other=("キックオフ会議では10月の公開が決まった。", "議事録はいつも山本さんが取る。", "3階の会議室にはプロジェクターがない。"),
    ),
    Case(
        "ルーターを再起動する方法",
        "ルーターを再起動するには、ルーターの再起動を行ってください。",
        other=("ルーターの裏のボタンを12秒押すと再起動する。", "ルーターは廊下の棚にある。", "プロバイダーの窓口は平日のみである。"),
    ),
    Case(
        "請求書の支払期限を教えて",
        "三和商事の請求書は、納品から45日後の4月20日が期限です。",
        used=("三和商事の支払いは納品から45日後である。",),
        other=("請求書はPDFで送る。", "経理の締めは毎月25日である。", "三和商事の担当は木村さんである。"),
    ),
    Case(
        "HTTPクライアントのタイムアウトを設定する",
        "タイムアウトは30秒にしました。それより短いと帳票の生成が途中で切れるためです。",
        used=("タイムアウトが30秒未満だと帳票の生成が途中で切れた。",),
        other=("クライアントは既定で3回再試行する。", "ヘルスチェックのタイムアウトは5秒がよい。", "HTTPの証明書は来月更新する。"),
    ),
    Case(
        "関西の顧客への出荷倉庫を決める",
        "神戸倉庫から出荷します。",
        used=("関西の顧客には神戸の倉庫から送ると翌日に着く。",),
        other=("倉庫の作業員は二交代である。", "関東の顧客には川崎の倉庫から送る。", "出荷の締め切りは15時である。"),
    ),
    Case(
        "遅延の苦情への返信を書く",
        "このたびは配送の遅延によりご迷惑をおかけしました。お詫びとして500円分のクーポンをお送りします。"
        "なお、台風による高速道路の通行止めの件は今回と関係がないため使いませんでした。",
        used=("配送が遅れた苦情には、お詫びに500円分のクーポンを送る。",),
        other=("台風で高速道路が通行止めになり、九州の配送が止まった。", "苦情には48時間以内に返信する。"),
    ),
    Case(
        "gunicornのワーカー数を決める",
        '{"workers": 9, "理由": "負荷試験でコア数の2倍に1を足した値が最も速かった"}',
        used=("負荷試験では、ワーカー数はコア数×2+1が最速だった。",),
        other=("gunicornのログは標準出力に出る。", "ワーカーは1000件ごとに再起動する。", "Celeryは別のサーバーで動く。"),
    ),
    Case(
        "休暇制度を説明する",
        "有給休暇は年に20日です。余った分は翌年度まで繰り越せます。",
        used=("有給は年20日付与される。", "使わなかった有給は翌年度に限り繰り越せる。"),
        other=("年末年始は会社が閉まる。", "休暇の申請は上長に出す。", "制服は貸与される。"),
    ),
    Case(
        "ログインのテストが不安定なのを直す",
        "リダイレクトの後にクッキーが設定されるので、テストではリダイレクトを待ってからクッキーを読むようにしました。",
        used=("セッションのクッキーはリダイレクト後に初めて設定される。",),
        other=("ログイン画面は認証チームの担当である。", "不安定なテストは三回失敗すると隔離される。", "検証環境は月曜の朝が遅い。"),
    ),
    Case(
        "健さんへの誕生日プレゼントを考える",
        "健さんはレコードを集めているので、マイルス・デイヴィスの初期盤はいかがでしょう。",
        used=("健さんは古いレコードを集めている。", "健さんはマイルス・デイヴィスをよく聴く。"),
        other=("健さんの誕生日は6月3日である。", "去年は健さんにコーヒーミルを贈った。", "健さんは測量士である。"),
    ),
    Case(
        "APIを本番に反映する",
        "APIを本番に反映しました。問題ありません。",
        other=("本番への反映には伊藤さんの承認が要る。", "APIは8080番ポートで待ち受ける。", "本番は東京リージョンで動いている。",
               "先週の反映はインデックスの不足で戻した。"),
    ),
    Case(
        "請求サービスを反映する",
        "先週はインデックス不足で切り戻しになったため、先にinvoices表へインデックスを作ってから反映しました。",
        used=("請求サービスは先週、invoices表のインデックスが足りず切り戻した。",),
        other=("請求サービスの反映は火曜日に行う。", "請求書は10年間保管する。", "反映には6分ほどかかる。"),
    ),
    Case(
        "京都の研修の宿を提案する",
        "「菊水館」がよいでしょう。静かで、会場まで歩いて行けます。駅前ホテルは無線LANがよく切れるので避けます。",
        used=("京都の「菊水館」は静かでよく眠れた。", "駅前ホテルは研修中に無線LANが何度も切れた。"),
        other=("宿泊費は一泊12000円までである。", "研修の参加者は11人である。", "京都へは新幹線で行く。"),
    ),
    Case(
        "遅い集計クエリを速くする",
        "tenant_idとclosed_atに部分インデックスを張ったところ、12秒が0.3秒になりました。",
        used=("tenant_idとclosed_atの部分インデックスで帳票が速くなる。",),
        other=("集計は1時間キャッシュされる。", "500ミリ秒を超えるクエリは記録される。", "集計用のデータベースは複製である。"),
    ),
    Case(
        "顧客は価格について何と言っていたか",
        "価格は高いと感じているものの、二年契約なら値引きを前提に前向きだそうです。",
        used=("顧客は二年契約と引き換えの値引きを望んでいる。",),
        other=("顧客への電話は午前中がよい。", "価格表は一月に改定される。", "競合は無料の試用を提案した。"),
    ),
    Case(
        "警告の帯の色を決める",
        "赤はエラー専用で、色覚特性のある利用者もいるため、琥珀色に濃い文字を選びました。",
        used=("デザイン規約では赤はエラー専用である。", "利用者には色覚特性のある人が複数いる。"),
        other=("帯の部品は中村さんが作った。", "警告は10秒で消える。", "ロゴは青い。"),
    ),
    Case(
        "recommend a restaurant in Tokyo for the visitors from Berlin",
        "ベルリンのお客様には浅草の「Sometaro」がおすすめです。vegetarianのお好み焼きがあります。",
        used=("浅草のSometaroにはvegetarian向けのお好み焼きがある。",),
        other=("ベルリンの来客は4名である。", "銀座の店は日曜が休みである。", "Restaurants in Tokyo rarely take cards."),
    ),
    Case("第3四半期の取締役会資料を作る",
     "# 第3四半期報告\n\n売上は4.2億円に伸びました。伸びの大半は北欧で、7月に代理店2社と契約したことによります。\n\n"
     "## リスク\n小口顧客の解約が計画を上回っています。入口価格を下げた年間プランを提案します。\n\n"
     "## 見通し\n採用は年明けまで凍結し、その後はサポート部門を優先します。",
     used=("7月に北欧の代理店2社と契約した。", "採用は年明けまで凍結されている。"),
     other=("取締役会は四半期の第二木曜に開かれる。", "取締役は表より図を好む。", "第2四半期の売上は3.7億円だった。", "資料は頁番号付きのPDFで出す。")),
    Case("ビルド用イメージのPythonの版を決める",
     "Python 3.12にします。numpy 2.1の配布物があり、ビルド機にも修正が適用済みです。",
     used=("ビルド機にはPython 3.12の修正が適用済みである。",),
     other=("Python 3.9のイメージは10月に消す。", "ビルド用イメージは日曜に作り直す。", "イメージはDebianを土台にしている。")),
    Case("挨拶文を英語に訳す",
     "Welcome, and thank you for joining us.",
     other=("英国支社はロンドンにある。", "手紙の挨拶は改まった文にする。", "翻訳者の山口さんは16時までいる。")),
    Case("返金の扱いを教えて",
     "5000円までの返金はサポートがその場で行えます。それを超える場合は責任者の承認が必要です。",
     used=("サポートは5000円まで確認なしに返金できる。", "サポートの上限を超える返金には責任者の承認が要る。"),
     other=("返金は5営業日で届く。", "サポートの窓口は8時から18時までである。", "5月の返金率は2%だった。")),
    Case("キャッシュの変更のレビューをする",
     "キャッシュの鍵にテナントが入っていません。以前も別の顧客のデータが見えてしまったので、鍵にテナントIDを加えてください。",
     used=("テナントを含まない鍵のせいで、別の顧客のデータが見えたことがある。",),
     other=("変更には一人の承認が要る。", "キャッシュはRedisで動いている。", "レビューは一日以内に行う。", "変更は400行以内にする。")),
    Case("明日の配送の順番を決める",
     "パン屋は6時前に小麦粉が要るので最初に回ります。次は学校ですが、水車通りの橋が通れないため環状線を使います。",
     used=("パン屋には朝6時前に小麦粉を届ける。", "水車通りの橋は6月まで通れない。"),
     other=("車は3月に点検した。", "学校への荷物は裏口に届ける。", "明日は鈴木さんが休みである。")),
    Case("決済モジュールの担当者を調べる",
     "担当者は分かりませんでした。合宿の記憶と決済画面の記憶は関係がありません。",
     other=("今年の合宿は軽井沢である。", "決済画面には失敗した請求が出る。", "決済モジュールはKotlinで書かれている。")),
    Case("面接に使う会議室を決める",
     "「キュリー」にします。扉が閉まる唯一の部屋で、6人座れます。",
     used=("扉が閉まる部屋は「キュリー」だけである。",),
     other=("「ボーア」は12人座れる。", "面接は1時間かかる。", "会議室は予定表で予約する。", "面接の手引きは社内wikiにある。")),
    Case("移行にかかる時間を見積もる",
     {"時間": 14, "手順": ["書き出し3時間", "復元9時間", "確認2時間"], "備考": "前回、復元は書き出しの三倍かかった"},
     used=("前回の移行では復元に書き出しの三倍の時間がかかった。",),
     other=("移行は土曜の夜に行う。", "見積もりは一日単位に切り上げる。", "古いサーバーのメモリは64GBである。")),
    Case("勉強会の題材を提案する",
     "機能フラグはどうでしょう。先日の障害のとき、緊急停止スイッチの仕組みを知りたいという声が多くありました。",
     used=("障害のとき緊急停止スイッチの使い方を尋ねる人が多かった。",),
     other=("勉強会は20分である。", "前回の題材はテストだった。", "勉強会は録画している。", "新しいデザイナーが入った。")),
)  # fmt: skip

SEEN_ONCE_ENGLISH: Final = (
    Case("arrange the catering for the workshop",
     "I ordered lunch from Bonnie's Kitchen for 24 people, including five vegan plates as last time.",
     used=("Bonnie's Kitchen catered the last workshop and everybody was happy.", "At the last workshop five people ate vegan."),
     other=("The workshop room has no kitchen.", "Catering invoices go to cost centre 4410.", "Coffee is served at ten.")),
    Case("diagnose the high memory usage of the worker",
     "Memory grows because the worker keeps every parsed XML tree alive. Clearing elements after iterparse brought it down from 2.1 GB to 300 MB.",
     used=("lxml keeps the parsed tree alive unless elements are cleared during iterparse.",),
     other=("Workers have a limit of 4 GB.", "Memory usage is shown on the Grafana dashboard.", "The worker was rewritten by Petra last autumn.")),
    Case("Which train should I take to Munich?",
     "Take the ICE at 7:12; the later one is usually full of commuters and has no working power outlets.",
     used=("The 7:12 ICE to Munich is the quiet one.", "The later train to Munich is packed with commuters."),
     other=("Munich has a good beer museum.", "Trains to Munich take four hours.", "A BahnCard saves half the fare.")),
    Case("summarise what we know about the client Orbis",
     "I found nothing reliable about Orbis. The entry on the printer contract was left out since it belongs to another client.",
     other=("The printer contract of Orbital Ltd. ends in May.", "Clients are entered in the CRM within a week.", "Orbis was founded in 1998.")),
    Case("write the release notes for 3.2",
     "3.2 brings dark mode, faster search and a fix for the crash when exporting empty tables.",
     used=("Exporting an empty table crashed the app; fixed in 3.2.", "Dark mode is finished and ships with 3.2."),
     other=("Release notes are sent to customers by mail.", "3.1 broke the login for SSO users.", "Releases happen on Wednesdays.", "The search team has three people.")),
    Case("set the heating schedule for the office",
     '{"monday": "06:30", "other_days": "07:15", "temperature": 20.5, "why": "the building cools out over the weekend"}',
     used=("Over the weekend the building cools out, so it needs longer on Monday.",),
     other=("The heating was serviced in October.", "The office opens at eight.", "The thermostat in the hallway is broken.")),
    Case("help me prepare for the salary negotiation",
     "Mention the Helsinki project: you led it alone and it finished two weeks early. Your manager values written numbers, so bring a page with figures.",
     used=("You led the Helsinki project on your own and finished two weeks ahead of schedule.", "My manager trusts numbers on paper more than talk."),
     other=("Salary talks take place in November.", "The negotiation training was in Oslo.", "The company has a pay band for each level.")),
    Case("what is the wifi password for guests",
     "bluewhale-77",
     used=("The guest wifi password is bluewhale-77.",),
     other=("The staff wifi uses certificates.", "Guests sign in at the reception.", "The wifi was down on 7 July.")),
    Case("choose a plant for the dark corner",
     "A ZZ plant would do well there. It survives with little light and needs water once a month.",
     other=("The corner by the lift has no window.", "Plants are watered by Olga on Fridays.", "The yucca died last winter.")),
    Case("is the supplier Tanaka reliable",
     "Mostly yes: of 40 deliveries 38 were on time, and the two late ones were announced beforehand.",
     used=("Tanaka delivered 38 of 40 orders on time.", "When Tanaka is late, they tell us in advance."),
     other=("Tanaka's sales contact is Mr. Ito.", "The supplier audit is due in September.", "Supplier Kato went bankrupt.")),
    Case("speed up the test suite",
     "I ran the tests in parallel and reused the database between runs; it now takes 90 seconds instead of 6 minutes.",
     used=("Reusing the test database between runs saves a minute.",),
     other=("The test suite has 2100 tests.", "Tests run on every push.", "Coverage must stay above 95%.", "Browser tests need Chrome.")),
    Case("plan Grandma's visit",
     "Put her in the downstairs room because of her knee, keep the cat out, and plan the botanical garden for Sunday afternoon.",
     used=("Grandma's knee makes stairs hard for her.", "Grandma is afraid of the cat.", "Grandma loves the botanical garden."),
     other=("Grandma's birthday is in May.", "The guest bed squeaks.", "Uncle Rob visits at Easter.")),
)  # fmt: skip

SEEN_ONCE_JAPANESE: Final = (
    Case("ワークショップの昼食を手配する",
     "「若葉亭」に24人分を頼みました。前回と同じく、菜食の弁当を5つ含めています。",
     used=("前回のワークショップの弁当は「若葉亭」で好評だった。", "前回は5人が菜食の弁当を選んだ。"),
     other=("ワークショップの部屋には台所がない。", "昼食の請求は総務に回す。", "コーヒーは10時に出す。")),
    Case("ワーカーのメモリ使用量が多い原因を調べる",
     "解析したXMLの木が解放されずに残っていました。iterparseで要素を消すようにしたところ、2.1GBから300MBに減りました。",
     used=("lxmlは、iterparseの途中で要素を消さないと解析した木を保持し続ける。",),
     other=("ワーカーの上限は4GBである。", "メモリ使用量はGrafanaで見られる。", "ワーカーは昨秋に橋本さんが書き直した。")),
    Case("名古屋へ行く電車を選ぶ",
     "7時12分の「ひかり」がよいでしょう。次の便は通勤客で混み、電源も使えません。",
     used=("7時12分の「ひかり」は空いている。", "その次の便は通勤客で混雑する。"),
     other=("名古屋の味噌煮込みは美味しい。", "名古屋までは二時間かかる。", "回数券を使うと安くなる。")),
    Case("顧客オルビスについて分かることをまとめる",
     "オルビスについて確かな情報はありませんでした。複合機の契約の記録は別の会社のものなので無視しました。",
     other=("オルビタル社の複合機の契約は5月に切れる。", "顧客は一週間以内に台帳に登録する。", "オルビスは1998年に設立された。")),
    Case("3.2のリリースノートを書く",
     "3.2では、ダークモードの追加、検索の高速化、空の表を書き出すと落ちる不具合の修正を行いました。",
     used=("空の表を書き出すとアプリが落ちる不具合は3.2で直った。", "ダークモードが完成し、3.2に入る。"),
     other=("リリースノートは顧客にメールで送る。", "3.1ではSSOのログインが壊れた。", "リリースは水曜に行う。", "検索の班は3人である。")),
    Case("事務所の暖房の予定を決める",
     '{"月曜": "06:30", "他の日": "07:15", "温度": 20.5, "理由": "週末に建物が冷え切るため"}',
     used=("週末は建物が冷え切るので、月曜は早めに暖める必要がある。",),
     other=("暖房は10月に点検した。", "事務所は8時に開く。", "廊下の温度計は壊れている。")),
    Case("評価面談の準備を手伝って",
     "ヘルシンキの案件を一人で率い、予定より二週間早く終えたことを伝えましょう。課長は紙の数字を重んじるので、一枚にまとめて持参してください。",
     used=("ヘルシンキの案件は一人で率いて、二週間早く終わった。", "課長は口頭より紙に書いた数字を信用する。"),
     other=("評価面談は11月にある。", "交渉の研修は大阪であった。", "等級ごとに給与の幅がある。")),
    Case("来客用の無線のパスワードは何か",
     "bluewhale-77です。",
     used=("来客用の無線のパスワードはbluewhale-77である。",),
     other=("社員用の無線は証明書を使う。", "来客は受付で記名する。", "7月7日に無線が止まった。")),
    Case("暗い隅に置く植物を選ぶ",
     "ザミオクルカスがよいでしょう。少ない光でも育ち、水やりは月に一度で済みます。",
     other=("エレベーター横の隅には窓がない。", "植物の水やりは金曜に大野さんがする。", "ユッカは去年の冬に枯れた。")),
    Case("仕入先の田辺工業は信頼できるか",
     "おおむね信頼できます。40回の納品のうち38回が期日どおりで、遅れた2回も事前に連絡がありました。",
     used=("田辺工業は40回中38回を期日どおりに納品した。", "田辺工業は遅れるときは前もって知らせてくる。"),
     other=("田辺工業の窓口は井上さんである。", "仕入先の監査は9月にある。", "仕入先の加藤製作所は倒産した。")),
    Case("テストを速くする",
     "テストを並列に動かし、データベースを使い回すようにしました。6分が90秒になりました。",
     used=("テスト用のデータベースを使い回すと一分ほど短くなる。",),
     other=("テストは2100件ある。", "テストはプッシュのたびに走る。", "網羅率は95%以上に保つ。", "画面のテストにはChromeが要る。")),
    Case("祖母の来訪の計画を立てる",
     "膝が悪いので一階の部屋に泊まってもらい、猫は別の部屋に入れます。日曜の午後は植物園に行きましょう。",
     used=("祖母は膝が悪く、階段がつらい。", "祖母は猫を怖がる。", "祖母は植物園が大好きである。"),
     other=("祖母の誕生日は5月である。", "客用の寝台はきしむ。", "叔父は春分に来る。")),
)  # fmt: skip

FRESH_ENGLISH: Final = (
    Case("choose a font for the annual report",
     "Source Serif, since the printer had trouble embedding Garamond two years ago.",
     used=("Two years ago the printer could not embed Garamond.",),
     other=("The annual report has 80 pages.", "Our website uses Inter.", "The report is printed by Koenig & Sons.")),
    Case("how should we onboard the new developer",
     "Give her a laptop with Linux on day one, pair her with Samir for the first week, and let her fix a small bug before Friday.",
     used=("New developers pair with Samir in their first week.", "It helps when a newcomer fixes a small bug in the first days."),
     other=("The new developer starts on 1 September.", "Laptops are ordered three weeks ahead.", "The last developer left after a month.")),
    Case("Calculate the shipping cost to Norway",
     "Shipping 8 kg to Norway costs 42.50 euros plus 25% import VAT.",
     used=("Norway adds 25% import VAT to parcels.", "Parcels of 5 to 10 kg to Norway cost 42.50 euros."),
     other=("Shipping to Norway takes six days.", "Parcels to Iceland cost 61 euros.", "Customs forms are printed in the warehouse.")),
    Case("check whether the backup works",
     "I checked whether the backup works. The backup works.",
     other=("Backups run at 3:30 and take an hour.", "A restore was last rehearsed in February.", "Backup tapes are stored in the bank.", "The backup of the wiki was corrupt twice.")),
    Case("write a toast for Emil's retirement",
     "Dear Emil, thirty-one years in the foundry, three fires, and never a sick day! Enjoy your sailing boat.",
     used=("Emil has worked in the foundry for thirty-one years.", "Emil bought a sailing boat."),
     other=("Emil's successor is called Dora.", "The retirement party is in the canteen.", "Emil dislikes long speeches.")),
    Case("investigate the drop in sign-ups",
     "Sign-ups dropped after the captcha was switched on. The note about the pricing page does not apply: that change came later.",
     used=("The captcha was switched on for the sign-up form on 4 May.",),
     other=("The pricing page was redesigned on 20 May.", "Sign-ups are counted per day.", "Marketing plans a campaign in July.")),
    Case("which library for PDF generation",
     {"choice": "WeasyPrint", "because": ["supports CSS paged media", "no headless browser needed"], "rejected": ["wkhtmltopdf"]},
     used=("WeasyPrint understands CSS paged media.",),
     other=("ReportLab has a commercial edition.", "Invoices are archived as PDF/A.", "PDF generation happens in the background.")),
    Case("find a slot for the retrospective",
     "Thursday at 15:00 works: the Lisbon colleagues are back from lunch and Nadia's childcare ends only at 16:30.",
     used=("Nadia has childcare until 16:30.", "Colleagues in Lisbon have lunch until 14:30 our time."),
     other=("Retrospectives last an hour.", "Monday mornings are kept free of meetings.", "The retrospective board is in Miro.")),
    Case("answer the question about the warranty",
     "I am afraid I don't know the terms of the warranty.",
     other=("The warranty covers batteries for eighteen months.", "Warranty claims go to claims@example.org.", "Last year 3% of devices came back under warranty.")),
    Case("water the vegetable garden plan",
     "Water the tomatoes at the root in the early morning, because wet leaves brought blight last summer. The courgettes need a full can each.",
     used=("Tomatoes got blight last summer from wet leaves.",),
     other=("The garden hose leaks.", "The rain barrel holds 300 litres.", "Carrots were sown in April.", "Slugs ate the lettuce.")),
    Case("decide on the cloud region",
     "Frankfurt, as the contract with the hospital forbids storing patient data outside Germany.",
     used=("The hospital's contract says patient data must stay in Germany.",),
     other=("Dublin is 8% cheaper than Frankfurt.", "The cloud bill is paid quarterly.", "The hospital has 900 beds.")),
    Case("improve the error message of the upload",
     "The message now says which row failed and offers the file with the bad rows for download, as users kept asking support for exactly that.",
     used=("Users often ask support which row of their upload failed.",),
     other=("Uploads are limited to 20 MB.", "Error messages are translated by Lingua.", "The upload page is the third most visited.")),
)  # fmt: skip

FRESH_JAPANESE: Final = (
    Case("年次報告書の書体を選ぶ",
     "「源ノ明朝」にします。二年前、印刷所がヒラギノを埋め込めずに困ったためです。",
     used=("二年前、印刷所ではヒラギノの埋め込みができなかった。",),
     other=("年次報告書は80頁ある。", "ウェブサイトの書体はInterである。", "報告書の印刷は光村社に頼む。")),
    Case("新しい開発者の受け入れ方を決める",
     "初日にLinuxのパソコンを渡し、最初の一週間は森さんと組ませ、金曜までに小さな不具合を直してもらいましょう。",
     used=("新人は最初の一週間、森さんと組んで作業する。", "入ってすぐに小さな不具合を直すと馴染みやすい。"),
     other=("新しい開発者は9月1日に来る。", "パソコンの発注には三週間かかる。", "前の開発者は一か月で辞めた。")),
    Case("ノルウェーへの送料を計算する",
     "8kgの荷物なら42.5ユーロで、これに25%の輸入付加価値税がかかります。",
     used=("ノルウェーでは荷物に25%の輸入付加価値税がかかる。", "ノルウェー宛の5〜10kgの荷物は42.5ユーロである。"),
     other=("ノルウェーまでは六日かかる。", "アイスランド宛は61ユーロである。", "税関の書類は倉庫で印刷する。")),
    Case("バックアップが動いているか確認する",
     "バックアップが動いているか確認しました。バックアップは動いています。",
     other=("バックアップは3時30分に始まり一時間かかる。", "復元の訓練は2月に行った。", "テープは銀行に預けている。", "wikiのバックアップは二度壊れていた。")),
    Case("江本さんの退職祝いの挨拶を書く",
     "江本さん、鋳造場での31年間、本当にお疲れさまでした。これからはヨットを存分に楽しんでください。",
     used=("江本さんは鋳造場に31年勤めた。", "江本さんはヨットを買った。"),
     other=("江本さんの後任は土井さんである。", "退職祝いは食堂で開く。", "江本さんは長い話が嫌いである。")),
    Case("登録者が減った理由を調べる",
     "画像認証を有効にした直後から減っています。料金ページの件は、変更が後だったため該当しません。",
     used=("5月4日に登録画面の画像認証を有効にした。",),
     other=("5月20日に料金ページを作り直した。", "登録者は日ごとに数える。", "広報は7月に宣伝を予定している。")),
    Case("PDFを作るライブラリを選ぶ",
     {"選択": "WeasyPrint", "理由": ["CSSの頁媒体に対応", "ブラウザが不要"], "不採用": ["wkhtmltopdf"]},
     used=("WeasyPrintはCSSの頁媒体を理解する。",),
     other=("ReportLabには有償版がある。", "請求書はPDF/Aで保管する。", "PDFの生成は裏で行う。")),
    Case("振り返り会の日時を決める",
     "木曜の15時にしましょう。リスボンの同僚は昼休みから戻っており、浜田さんのお迎えは16時半です。",
     used=("浜田さんは16時半に保育園へ迎えに行く。", "リスボンの同僚の昼休みは日本時間の14時半までである。"),
     other=("振り返り会は一時間である。", "月曜の朝には会議を入れない。", "振り返りの板はMiroにある。")),
    Case("保証についての質問に答える",
     "申し訳ありませんが、保証の条件は分かりません。",
     other=("電池の保証は18か月である。", "保証の申請は専用の窓口に送る。", "去年は3%の機器が保証で戻ってきた。")),
    Case("畑の水やりの計画を立てる",
     "トマトは葉を濡らさないよう、早朝に根元へ水をやります。去年の夏は濡れた葉から疫病が広がりました。ズッキーニには一株に一杯です。",
     used=("去年の夏、トマトは濡れた葉から疫病になった。",),
     other=("ホースは水漏れする。", "雨水の樽は300リットル入る。", "人参は4月に蒔いた。", "レタスはナメクジに食べられた。")),
    Case("クラウドの地域を決める",
     "大阪にします。病院との契約で、患者のデータを国外に置けないからです。",
     used=("病院との契約により、患者のデータは国内に置かなければならない。",),
     other=("シンガポールは東京より8%安い。", "クラウドの料金は四半期払いである。", "その病院には900床ある。")),
    Case("アップロードのエラー文を改善する",
     "どの行で失敗したかを示し、問題の行だけのファイルを渡すようにしました。サポートへの問い合わせがそれに集中していたためです。",
     used=("何行目で失敗したのかというサポートへの問い合わせが多い。",),
     other=("アップロードは20MBまでである。", "エラー文の翻訳はリンガ社がする。", "アップロードの画面は三番目によく見られる。")),
)  # fmt: skip


TABLES: Final = {
    ("tuned", "en"): TUNED_ENGLISH,
    ("tuned", "ja"): TUNED_JAPANESE,
    ("seen once", "en"): SEEN_ONCE_ENGLISH,
    ("seen once", "ja"): SEEN_ONCE_JAPANESE,
    ("fresh", "en"): FRESH_ENGLISH,
    ("fresh", "ja"): FRESH_JAPANESE,
}

MISSED: Final = {
    # a name and what is known of it, where most of the fact stays unsaid
    "Hanseatic Fittings keeps DN50 valves in stock and ships the same day.",
    "関西の顧客には神戸の倉庫から送ると翌日に着く。",
    "ダークモードが完成し、3.2に入る。",
    # other words for the same
    "Anna is lactose intolerant.",
    "Anna's favourite food is anything with mushrooms.",
    "When Tanaka is late, they tell us in advance.",
    "Grandma's knee makes stairs hard for her.",
    "田辺工業は遅れるときは前もって知らせてくる。",
    # one common word of several, said about the same thing
    "Grandma is afraid of the cat.",
    "祖母は猫を怖がる。",
    "江本さんはヨットを買った。",
    # a figure with another counter: 「5人」 and 「5つ」
    "前回は5人が菜食の弁当を選んだ。",
}

WRONGLY_USED: Final = {
    # the result has the laptop from its own thoughts, and 「週間」 from another memory
    "パソコンの発注には三週間かかる。"
}


def found(case: Case) -> list[str]:
    """Return the texts of the case's memories that words call used; those of no use are offered first."""
    offered = [Offered(text, text) for text in case.other + case.used]
    return used_by_words(result_text(case.result), offered, query=case.query)


def any_word(case: Case) -> list[str]:
    """Return what the plain rule would: the memories of which any word occurs in the result."""
    said = set(analyse(result_text(case.result)))
    return [text for text in case.other + case.used if said & set(analyse(text))]


def figures(cases: Sequence[Case], method: Any) -> tuple[float, float]:
    """Return precision and recall of single memories over the cases."""
    answers = [(set(method(case)), set(case.used)) for case in cases]
    right = sum(len(got & used) for got, used in answers)
    precision = right / sum(len(got) for got, _ in answers)
    return round(precision, 2), round(right / sum(len(used) for _, used in answers), 2)


FIGURES: Final = {
    ("tuned", "en"): (1.0, 0.92),
    ("tuned", "ja"): (1.0, 0.97),
    ("seen once", "en"): (1.0, 0.82),
    ("seen once", "ja"): (1.0, 0.76),
    ("fresh", "en"): (1.0, 1.0),
    ("fresh", "ja"): (0.93, 0.93),
}

PLAIN: Final = {
    ("tuned", "en"): (0.39, 1.0),
    ("tuned", "ja"): (0.4, 1.0),
    ("seen once", "en"): (0.55, 1.0),
    ("seen once", "ja"): (0.5, 1.0),
    ("fresh", "en"): (0.47, 1.0),
    ("fresh", "ja"): (0.4, 1.0),
}


@pytest.mark.parametrize("table", TABLES)
def test_figures_are_not_below_what_was_reached(table: tuple[str, str]) -> None:
    precision, recall = figures(TABLES[table], found)
    assert precision >= FIGURES[table][0]
    assert recall >= FIGURES[table][1]


@pytest.mark.parametrize("language", ["en", "ja"])
def test_figures_over_all_cases_reach_the_aim(language: str) -> None:
    cases = [case for (_, spoken), table in TABLES.items() if spoken == language for case in table]
    precision, recall = figures(cases, found)
    assert precision >= 0.9
    assert recall >= 0.8


@pytest.mark.parametrize("table", TABLES)
def test_plain_rule_calls_much_used_that_was_not(table: tuple[str, str]) -> None:
    assert figures(TABLES[table], any_word) == pytest.approx(PLAIN[table], abs=0.02)


@pytest.mark.parametrize("table", TABLES)
def test_known_misses_and_mistakes_are_all_there_are(table: tuple[str, str]) -> None:
    for case in TABLES[table]:
        got = set(found(case))
        assert set(case.used) - got <= MISSED
        assert got - set(case.used) <= WRONGLY_USED


@pytest.mark.parametrize("table", TABLES)
def test_cases_offer_three_to_six_memories(table: tuple[str, str]) -> None:
    assert {len(case.used + case.other) for case in TABLES[table]} <= {3, 4, 5, 6}


def one(result: str, memory: str, query: str = "", **options: Any) -> bool:
    """Say whether the result uses the only memory offered."""
    return used_by_words(result, [Offered(1, memory)], query=query, **options) == [1]


@pytest.mark.parametrize(
    ("result", "memory", "query"),
    [
        ("Anna likes tea.", "Anna likes tea.", "What does Anna like: tea or coffee?"),
        ("杏さんは紅茶が好きです。", "杏さんは紅茶が好き", "紅茶と珈琲のどちらが杏さんは好きか"),
        ("Osaka.", "Japanese customers are served from the Osaka warehouse.", "warehouse for Japanese customers"),
        ("It is 1.5 times as much.", "Rush orders cost 1.5 times the price.", "cost of rush orders"),
        ("費用は1.5倍です。", "急ぎの注文は1.5倍かかる。", "急ぎの注文の費用"),
        ("Wir nehmen 45 seconds.", "Timeout: 45 seconds.", "timeout"),
        ("The importer ignores empty rows of the record.", "The importer ignores empty rows of the record.", ""),
    ],
)
def test_memory_that_the_result_states_is_used(result: str, memory: str, query: str) -> None:
    assert one(result, memory, query)


@pytest.mark.parametrize(
    ("result", "memory", "query"),
    [
        ("What does Anna like: tea or coffee?", "Anna like tea or coffee", "What does Anna like: tea or coffee?"),
        ("You asked for tea for Anna.", "Anna likes tea.", "Does Anna like tea?"),
        ("Revenue was 4.2 million euros.", "Revenue was 3.7 million euros.", ""),
        ("売上は4.2億円でした。", "売上は3.7億円だった。", ""),
        ("I ignored the memory about the Osaka warehouse.", "The warehouse is in Osaka.", ""),
        ("大阪の倉庫の件は考慮しませんでした。", "倉庫は大阪にある。", ""),
        ("", "The warehouse is in Osaka.", ""),
        ("。。。", "!!!", ""),
        ("The warehouse is in Osaka.", "", ""),
    ],
)
def test_memory_that_the_result_repeats_alters_or_refuses_is_not_used(result: str, memory: str, query: str) -> None:
    assert not one(result, memory, query)


def test_keys_come_back_in_the_order_offered() -> None:
    offered = [Offered(3, "Osaka"), Offered(1, "Kobe"), Offered(2, "Nara"), Offered(0, "Kobe")]
    assert used_by_words("Kobe, Osaka", offered) == [3, 1, 0]
    assert used_by_words("Kobe, Osaka", []) == []


def test_all_memories_of_the_same_fact_are_used() -> None:
    texts = [
        "The Osaka warehouse ships within 3.5 days.",
        "Shipping from the Osaka warehouse takes 3.5 days.",
        "3.5 days is what the warehouse in Osaka takes.",
    ]
    result = "Order today: the Osaka warehouse needs 3.5 days for shipping."
    assert used_by_words(result, [Offered(text, text) for text in texts], query="when to order") == texts


def test_memory_is_not_dragged_in_by_the_words_of_another() -> None:
    fact = Offered("fact", "Sanwa Trading pays 45 days after delivery.")
    beside = Offered("beside", "Sanwa Trading moved to Nagoya.")
    assert used_by_words("Sanwa Trading will pay 45 days after delivery.", [fact, beside]) == ["fact"]


def test_one_fact_of_a_long_memory_is_enough() -> None:
    long = "We met at the lake. " * 200 + "The bridge on Mill Lane closes in June. " + "It rained on Monday. " * 200
    assert one("Take the ring road, for Mill Lane bridge closes in June.", long, "plan the route")
    assert not one("Take the ring road.", long, "plan the route")


def test_a_short_clause_says_nothing_alone() -> None:
    assert not one("It is important to rest.", "Important! The Osaka warehouse closes in June.")


def test_words_scattered_over_a_long_result_do_not_add_up() -> None:
    memory = "Osaka warehouse closes in June."
    filler = "Nothing else happened on that long and quiet day by the river. " * 20
    assert one(filler + "The Osaka warehouse closes in June. " + filler, memory)
    assert not one(filler.join(["Osaka.", "A warehouse burnt.", "It closes.", "June was hot."]), memory)


def test_a_few_words_of_a_long_fact_are_not_enough() -> None:
    fact = " ".join(f"word{letter}" for letter in "abcdefghijklmnopqrstuvwxyz")
    assert not one(f"{fact[:29]} {' '.join(f'thing{letter}' for letter in 'abcdefghijklmn')}", fact)


def test_more_is_needed_where_more_is_said() -> None:
    memory, filler = "Anna keeps green bicycles.", "Nothing else happened on that long day by the river. "
    assert one("Green bicycles cost more. " + filler * 5, memory)
    assert not one("Green bicycles cost more. " + filler * 500, memory)


def test_topics_of_a_long_result_tell_little() -> None:
    memory, filler = ("Osaka warehouse shifts.", "Nothing else happened on that long and quiet day by the river. " * 5)
    assert one(filler * 20 + "The Osaka warehouse is open. " + filler * 20, memory)
    assert not one((filler + "The Osaka warehouse is open. ") * 20, memory)


def test_common_words_tell_less_than_rare_ones() -> None:
    common = {term_id(term): 0.5 for term in analyse("meeting room")} | {term_id("osaka"): 6.0}
    result, memory = "The meeting room was free for lunch.", "Our meeting room is in Osaka."
    assert one(result, memory)
    assert not one(result, memory, idf=common)
    assert one("Go to Osaka for lunch.", memory, idf=common)


@given(st.text(max_size=80), st.lists(st.text(max_size=80), max_size=4), st.text(max_size=40))
def test_any_texts_give_some_of_the_keys(result: str, texts: list[str], query: str) -> None:
    used = used_by_words(result, [Offered(number, text) for number, text in enumerate(texts)], query=query)
    assert used == sorted(set(used))
    assert set(used) <= set(range(len(texts)))


@pytest.mark.parametrize(
    "text", ["data " * 20_000, "記憶" * 50_000, "1." * 50_000, "a\n" * 50_000, "note " * 20_000, "話" * 100_000]
)
def test_long_texts_take_no_more_than_seconds(text: str) -> None:
    started = time.process_time()
    used_by_words(text, [Offered(1, text[:-1]), Offered(2, text[::-1])], query=text[:1000])
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    ("to_result", "to_query", "used"),
    [
        ({"a": 0.9}, {"a": 0.5}, ["a"]),
        ({"a": 0.9}, {"a": None}, ["a"]),
        ({"a": 0.9}, {}, ["a"]),
        ({"a": None}, {"a": 0.1}, []),
        ({"a": 0.5}, {"a": 0.1}, []),
        ({"a": 0.9}, {"a": 0.88}, []),
        ({"a": float("nan")}, {}, []),
        ({"b": 0.9, "c": 0.2, "a": 0.8}, {"b": 0.1, "a": 0.6}, ["b", "a"]),
    ],
)
def test_vectors_nearer_to_the_result_than_to_the_query_are_used(
    to_result: dict[str, float | None], to_query: dict[str, float | None], used: list[str]
) -> None:
    assert used_by_vectors(to_result, to_query) == used


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("as it is\n", "as it is\n"),
        (None, ""),
        (True, ""),
        (0.15, "0.15"),
        ({"warehouse": "Osaka", "days": 3}, "warehouse Osaka\ndays 3"),
        ({"steps": ["pack", {"ship": None}], 7: ("x", {"y"})}, "steps\npack\nship\n7\nx\ny"),
        (complex(1, 2), "(1+2j)"),
        ([], ""),
    ],
)
def test_result_text_holds_the_words_of_any_value(result: Any, text: str) -> None:
    assert result_text(result) == text


def test_result_text_is_bounded_in_length_depth_and_parts() -> None:
    circle: list[Any] = ["inside"]
    circle += [circle, circle]
    assert len(result_text("x" * 200_000)) == MAX_RESULT_CHARACTERS
    assert len(result_text(["x" * 1000] * 1000)) == MAX_RESULT_CHARACTERS
    assert result_text(circle).startswith("inside")
    deep: Any = "deepest"
    for _ in range(MAX_RESULT_DEPTH):
        deep = [deep]
    assert result_text(deep) == ""
    assert result_text(deep[0]) == "deepest"


def test_passages_hold_the_whole_text_in_short_pieces() -> None:
    text = "One sentence. " * 100 + "長い文が続く。" * 100 + "x" * 1000
    pieces = passages(text)
    assert max(map(len, pieces)) <= PASSAGE_CHARACTERS
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert passages("") == []


def test_offered_text_is_not_shown_in_logs() -> None:
    assert "secret" not in repr(Offered(1, "secret"))
