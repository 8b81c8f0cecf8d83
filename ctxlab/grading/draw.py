"""Fresh material for the checks, drawn from a seed: text of several kinds, tool calls, histories.

The same seed gives the same material on every machine. The word lists are the kit's own. They are made so that a text
of any length is never the same twice, and so that an answer cannot be written down beforehand.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Dict: TypeAlias = dict[str, Any]

ENGLISH = (
    (
        "The night shift",
        "A visiting engineer",
        "Our neighbour",
        "The second violinist",
        "Nobody at the harbour",
        "The librarian",
        "Every apprentice",
        "The town council",
        "A tired courier",
        "The youngest gardener",
    ),
    (
        "moved",
        "described",
        "repaired",
        "postponed",
        "measured",
        "forgot about",
        "photographed",
        "argued over",
        "carefully labelled",
        "quietly replaced",
    ),
    (
        "eleven crates of bearings",
        "the wooden staircase",
        "a map of the old tunnels",
        "the annual budget",
        "a pair of brass telescopes",
        "the irrigation schedule",
        "two faulty sensors",
        "the winter timetable",
        "a letter from the ministry",
        "the greenhouse roof",
    ),
    (
        "before the rain started",
        "because the deadline had passed",
        "while the market was still open",
        "without telling the others",
        "at the request of the mayor",
        "as soon as the power came back",
        "in spite of the warning",
        "during the long weekend",
        "with help from the neighbours",
        "on the last day of May",
    ),
)
CHINESE = (
    ("昨天下午", "去年冬天", "会议结束以后", "每个星期一", "下雨之前", "在火车站附近", "考试前一天", "天亮的时候"),
    (
        "邻居家的老师",
        "图书馆管理员",
        "年轻的工程师",
        "负责仓库的同事",
        "我们的房东",
        "镇上的医生",
        "两个学徒",
        "码头上的工人",
    ),
    ("仔细检查了", "重新安排了", "终于修好了", "悄悄换掉了", "详细记录了", "反复讨论了", "忘记带走", "推迟提交"),
    (
        "温室的屋顶",
        "下个月的预算",
        "旧城区的地图",
        "两台坏掉的传感器",
        "冬季的课程表",
        "十一箱零件",
        "厨房的水管",
        "那封迟到的信",
    ),
    (
        "，因为截止日期快到了。",
        "，但是没有告诉其他人。",
        "，大家都觉得很意外。",
        "，后来才发现并不需要。",
        "，希望春天以前能完成。",
        "，结果比预想的好得多。",
    ),
)
JAPANESE = (
    (
        "昨日の夕方、",
        "去年の冬に、",
        "会議が終わってから、",
        "毎週月曜日に、",
        "雨が降る前に、",
        "駅の近くで、",
        "試験の前日に、",
        "夜が明けるころ、",
    ),
    (
        "隣の家の先生は",
        "図書館の係の人は",
        "若い技術者は",
        "倉庫を担当する同僚は",
        "大家さんは",
        "町の医者は",
        "二人の見習いは",
        "港で働く人たちは",
    ),
    (
        "温室の屋根を",
        "来月の予算を",
        "古い街の地図を",
        "壊れたセンサーを",
        "冬の時間割を",
        "十一箱の部品を",
        "台所の水道を",
        "遅れて届いた手紙を",
    ),
    (
        "ていねいに調べました。",
        "もう一度計画しました。",
        "やっと直しました。",
        "こっそり取り替えました。",
        "くわしく記録しました。",
        "何度も話し合いました。",
        "持って帰るのを忘れました。",
        "提出するのを延期しました。",
    ),
)
NAMES = ("Amara", "Bjorn", "Chidi", "Dolores", "Emre", "Farida", "Goran", "Hanako", "Ilse", "Jorge", "Kwame", "Leila")
CITIES = ("Tampere", "Valparaiso", "Leuven", "Busan", "Accra", "Ghent", "Cusco", "Nagoya", "Tartu", "Bergen", "Izmir")
TOOLS = ("find_orders", "read_file", "get_weather", "search_flights", "list_invoices", "check_stock", "run_query")
KEYS = ("status", "warehouse", "priority", "carrier", "reference", "customer", "currency", "notes", "updated_by")
VALUES = ("pending", "delivered", "north-dock", "urgent", "returned", "in_review", "standard", "express", "unknown")
SCRIPTS = (
    "naïve café Größe",
    "Привет, мир",
    "今日は良い天気",
    "안녕하세요",
    "مرحبا بالعالم",
    "שלום עולם",
    "नमस्ते दुनिया",
    "🙂👩‍👩‍👧‍👦🇫🇮",
    "Ἑλλάς",
)


class Draw:
    """Draws from a seed. ``Draw(seed, "fork_session", "deep-copy")`` is a check's own material, whoever asks first."""

    def __init__(self, *seed: object) -> None:
        self.random = random.Random("/".join(str(part) for part in ("ctxlab", *seed)))
        self._ids = 0

    def pick(self, options: Sequence[str]) -> str:
        """One of the options."""
        return self.random.choice(options)

    def number(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return self.random.randint(low, high)

    def code(self) -> str:
        """A short code such as ``K7-4821``, which no text has by accident."""
        return f"{self.pick('ABCDEFGHKLMNPRSTUVXY')}{self.number(2, 9)}-{self.number(1000, 9999)}"

    def call_id(self) -> str:
        """A fresh call id."""
        self._ids += 1
        return f"call_{self._ids}{self.number(100, 999)}"

    def english(self, sentences: int) -> str:
        """English prose."""
        said = []
        for _ in range(sentences):
            who, did, what, when = (self.pick(part) for part in ENGLISH)
            said.append(f"{who} {did} {what} {when}; it's {self.pick(NAMES)}'s no. {self.number(2, 98)}, isn't it?")
        return " ".join(said)

    def chinese(self, sentences: int) -> str:
        """Chinese prose."""
        return "".join("".join(self.pick(part) for part in CHINESE) for _ in range(sentences))

    def japanese(self, sentences: int) -> str:
        """Japanese prose."""
        return "".join("".join(self.pick(part) for part in JAPANESE) for _ in range(sentences))

    def record(self) -> Dict:
        """A JSON object as tools take and give them."""
        keys = self.random.sample(KEYS, 4)
        record: Dict = {key: self.pick(VALUES) for key in keys}
        record["id"] = self.code()
        record["amount"] = self.number(100, 99999) / 100
        record["name"] = f"{self.pick(NAMES)} of {self.pick(CITIES)}"
        return record

    def user(self, sentences: int = 2) -> Dict:
        """A user message."""
        return {"role": "user", "content": f"{self.english(sentences)} Please look at {self.code()}."}

    def assistant(self, sentences: int = 2) -> Dict:
        """An assistant message without calls."""
        return {"role": "assistant", "content": f"{self.english(sentences)} That settles {self.code()}."}

    def system(self) -> Dict:
        """A system message."""
        name, city = self.pick(NAMES), self.pick(CITIES)
        return {"role": "system", "content": f"You are the assistant of {name} in {city}. Desk code {self.code()}."}

    def calls(self, count: int = 1, rows: int = 2) -> list[Dict]:
        """An assistant message with ``count`` parallel calls, and their results of ``rows`` records each."""
        ids = [self.call_id() for _ in range(count)]
        asked = [
            {"id": id, "type": "function", "function": {"name": self.pick(TOOLS), "arguments": self.json(1)}}
            for id in ids
        ]
        results = [{"role": "tool", "tool_call_id": id, "content": self.json(rows)} for id in ids]
        return [{"role": "assistant", "content": None, "tool_calls": asked}, *results]

    def json(self, rows: int) -> str:
        """JSON text: one record, or a list of them."""
        data = self.record() if rows == 1 else [self.record() for _ in range(rows)]
        return json.dumps(data)

    def round(self, tools: int = 1, rows: int = 2) -> list[Dict]:
        """A round: a user message, an assistant message with ``tools`` calls (if any), their results, the reply."""
        return [self.user(), *(self.calls(tools, rows) if tools else []), self.assistant()]

    def history(self, rounds: int, tools: Sequence[int] = (1, 0, 2, 1), rows: int = 2) -> list[Dict]:
        """A system message and so many rounds; ``tools`` says how many calls each makes, over and over."""
        messages = [self.system()]
        for index in range(rounds):
            messages += self.round(tools[index % len(tools)], rows)
        return messages

    def summary(self) -> str:
        """What a summariser would answer for any history: a fact and two codes."""
        return (
            f"The user {self.pick(NAMES)} lives in {self.pick(CITIES)} and needs {self.code()} before {self.code()}; "
            "both earlier searches are done."
        )


def padded(history: list[Dict], index: int, tokens: int, count: Callable[[list[Dict]], int]) -> list[Dict]:
    """The history with the message at ``index`` made longer, word by word, until ``count`` says exactly ``tokens``.

    Raises ValueError where the history is longer than that from the start.
    """
    missing = tokens - count(history)
    if missing < 0:
        raise ValueError(f"{-missing} tokens too long to be padded to {tokens}")
    message = history[index]
    words = missing
    for _ in range(20):
        longer = {**message, "content": str(message["content"]) + " over" * words}
        padded_history = [*history[:index], longer, *history[index + 1 :]]
        off = count(padded_history) - tokens
        if off == 0:
            return padded_history
        words -= off
    raise ValueError(f"no text of this history has exactly {tokens} tokens")
