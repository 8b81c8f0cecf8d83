"""What the user said about themselves, read out of messages: the scripted model's whole memory.

A statement is found by its wording, in English, Chinese or Vietnamese, in the first person (the user's own message) or
the third (a summary: "The user lives in Shanghai."). Nothing is kept between calls: what is not in the messages given
is not known. The wordings are few on purpose; a learner can read them all here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from ctxlab.messages import Message, MessageLike, as_messages


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that the user stated. ``kind``: a key of `KINDS`; ``value``: in the user's own words."""

    kind: str
    value: str

    def __str__(self) -> str:
        return KINDS[self.kind].summary.format(self.value)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fact. ``many``: several may hold at once, else the latest statement stands.

    ``stated``: patterns with one group, the value. ``asked``: patterns of a question about it. ``summary``, ``answer``
    and ``unknown`` are sentences; the last two by language.
    """

    stated: tuple[str, ...]
    asked: tuple[str, ...]
    summary: str
    answer: dict[str, str]
    unknown: dict[str, str]
    many: bool = False


_VALUE = r"([^\n.,;:!?，。；！？]{1,80}?)"
_END = (
    r"(?=\s*(?:$|[\n.,;:!?，。；！？()]|\b(?:and|or|but|please|so|now|for|since|with|because|any ?more|again|at the|"
    r"these days|và|nhé|nha|cho)\b))"
)
_AMOUNT = r"(\d{1,3}(?:,\d{3})+|\d{1,9}(?:\.\d{1,2})?)"
_USER = r"\b(?:i|the user|user|the customer|customer)"

KINDS: dict[str, Kind] = {
    "home": Kind(
        stated=(
            rf"{_USER}(?:'ve)?(?: have| has)?(?: just| now)? (?:lives?|moved|am living) (?:in|to) {_VALUE}{_END}",
            rf"(?:\bi'm|\bi am|\b(?:the )?(?:user|customer) is) (?:based|at home) in {_VALUE}{_END}",
            rf"\bhome(?: city| town)?(?: is|:)(?: in)? {_VALUE}{_END}",
            r"(?:我|用户)(?:现在)?(?:住在|搬到了?)\s*([^\s，。；！？,.!?吗哪]+)",
            rf"\b(?:tôi|mình) (?:đang |đã )?(?:sống|ở|chuyển đến) (?:ở |tại )?(?!đâu)(?!nhà){_VALUE}{_END}",
        ),
        asked=(
            r"\bwhere\b.*\b(?:i|my)\b.*\b(?:live|home|based)\b",
            r"\bwhere(?: do| did|'s| is) (?:i|my) (?:live|home)",
            r"\b(?:what|which) (?:city|town|place)\b.*\b(?:i|my)\b",
            r"\b(?:what is|what's|tell me|remember|know) my (?:home|city|home city|address)\b",
            r"\bwhere am i\b",
            r"住在?(?:哪里|哪儿|什么地方|哪个城市)",
            r"\b(?:sống|ở)\s+(?:ở\s+)?(?:đâu|thành phố nào)",
        ),
        summary="The user lives in {}.",
        answer={
            "en": "You said that you live in {}.",
            "zh": "你说过你住在{}。",
            "vi": "Bạn đã nói rằng bạn sống ở {}.",
        },
        unknown={
            "en": "I do not know where you live: nothing that I was given says so.",
            "zh": "我不知道你住在哪里：我拿到的内容里没有提到。",
            "vi": "Tôi không biết bạn sống ở đâu: trong những gì tôi nhận được không có điều đó.",
        },
    ),
    "name": Kind(
        stated=(
            rf"\bmy name is {_VALUE}{_END}",
            rf"\b(?:you can |please )?call me {_VALUE}{_END}",
            rf"\b(?:user|customer)(?:'s name is| is called) {_VALUE}{_END}",
            r"我(?:的名字)?(?:叫|是叫)\s*([^\s，。；！？,.!?什]+)",
            rf"\btôi tên là (?!gì){_VALUE}{_END}|\btên tôi là (?!gì){_VALUE}{_END}",
        ),
        asked=(
            r"\b(?:what is|what's|know|remember|recall|tell me) my name\b",
            r"\bwho am i\b",
            r"我叫什么",
            r"\btên (?:tôi )?là gì",
        ),
        summary="The user's name is {}.",
        answer={"en": "Your name is {}.", "zh": "你叫{}。", "vi": "Bạn tên là {}."},
        unknown={
            "en": "I do not know your name: nothing that I was given says so.",
            "zh": "我不知道你叫什么：我拿到的内容里没有提到。",
            "vi": "Tôi không biết tên bạn: trong những gì tôi nhận được không có điều đó.",
        },
    ),
    "budget": Kind(
        stated=(
            rf"\bbudget(?:'s|:| is| of| now is| is now)(?: at most| no more than| up to| about)? ?[€$]? ?{_AMOUNT}",
            rf"\bspends?(?: at most| no more than| up to) ?[€$]? ?{_AMOUNT}",
            rf"预算(?:是|为|只有)?\s*{_AMOUNT}",
            rf"\bngân sách (?:của (?:tôi|người dùng) )?là {_AMOUNT}",
        ),
        asked=(
            r"\bwhat(?: is|'s| was| did).*\bbudget\b",
            r"\bhow much (?:can|may|could|do|did) i\b.*\b(?:spend|budget)\b",
            r"\b(?:remember|remind me of|recall|tell me|know) my budget\b",
            r"预算(?:是)?多少",
            r"\bngân sách .*(?:bao nhiêu|là gì)",
        ),
        summary="The user's budget is {} euros.",
        answer={
            "en": "Your budget is {} euros.",
            "zh": "你的预算是{}欧元。",
            "vi": "Ngân sách của bạn là {} euro.",
        },
        unknown={
            "en": "I do not know your budget: nothing that I was given says so.",
            "zh": "我不知道你的预算：我拿到的内容里没有提到。",
            "vi": "Tôi không biết ngân sách của bạn: trong những gì tôi nhận được không có điều đó.",
        },
    ),
    "never_ship": Kind(
        stated=(
            rf"\b(?:never|not|don't) (?:ever )?(?:ship|send|deliver)(?: anything| orders?| it)? to {_VALUE}{_END}",
            r"(?:不要|别|绝不|千万不要)(?:再)?(?:寄|送|发货|发)到\s*([^\s，。；！？,.!?哪]+)",
            rf"\b(?:đừng|không) (?:bao giờ )?(?:được )?(?:giao|gửi)(?: hàng)? (?:đến|tới) (?!đâu){_VALUE}{_END}",
        ),
        asked=(
            r"\bwhere\b.*\b(?:not|never)\b.*\b(?:ship|send|deliver)",
            r"\b(?:what|which)\b.*\b(?:not|never)\b.*\b(?:ship|send|deliver)",
            r"不(?:要|能|可以)(?:寄|送|发)到(?:哪里|哪儿)",
            r"\bkhông (?:được )?(?:giao|gửi)(?: hàng)? (?:đến|tới) đâu",
        ),
        summary="Never ship to {}.",
        answer={
            "en": "You said never to ship to {}.",
            "zh": "你说过不要寄到{}。",
            "vi": "Bạn đã nói đừng giao hàng đến {}.",
        },
        unknown={
            "en": "I know of no place that I must not ship to: nothing that I was given names one.",
            "zh": "我不知道有什么地方不能寄：我拿到的内容里没有提到。",
            "vi": "Tôi không biết nơi nào không được giao: trong những gì tôi nhận được không có điều đó.",
        },
        many=True,
    ),
    "allergy": Kind(
        stated=(
            rf"\b(?:i am|i'm|user is|customer is) allergic to {_VALUE}{_END}",
            rf"\b(?:user|customer)'s allergy: {_VALUE}{_END}",
            r"(?:我|用户)对\s*([^\s，。；！？,.!?什]+?)\s*过敏",
            rf"\b(?:tôi|người dùng) (?:bị )?dị ứng (?:với )?(?!gì){_VALUE}{_END}",
        ),
        asked=(r"\bwhat\b.*\ballerg", r"\bmy allerg", r"对什么过敏", r"\bdị ứng (?:với )?(?:gì|cái gì)"),
        summary="The user is allergic to {}.",
        answer={"en": "You are allergic to {}.", "zh": "你对{}过敏。", "vi": "Bạn dị ứng với {}."},
        unknown={
            "en": "I do not know of an allergy: nothing that I was given names one.",
            "zh": "我不知道你对什么过敏：我拿到的内容里没有提到。",
            "vi": "Tôi không biết bạn dị ứng với gì: trong những gì tôi nhận được không có điều đó.",
        },
        many=True,
    ),
    "note": Kind(
        stated=(r"\b(?:remember|note|noted|keep in mind) that ([^\n.!?]{1,200})",),
        asked=(r"\bwhat\b.{0,40}\b(?:ask|asked|tell|told|want|wanted) you to (?:remember|note|keep in mind)\b",),
        summary="The user wants it noted that {}.",
        answer={"en": "You asked me to note that {}.", "zh": "你让我记住：{}。", "vi": "Bạn nhờ tôi ghi nhớ: {}."},
        unknown={
            "en": "I know of nothing that you asked me to note.",
            "zh": "我不知道你让我记住什么。",
            "vi": "Tôi không biết bạn nhờ tôi ghi nhớ điều gì.",
        },
        many=True,
    ),
}
"""The kinds of facts, in the order in which they are looked for and written down."""

_STATED = {kind: tuple(re.compile(p, re.IGNORECASE) for p in entry.stated) for kind, entry in KINDS.items()}
_ASKED = {kind: tuple(re.compile(p, re.IGNORECASE) for p in entry.asked) for kind, entry in KINDS.items()}
_SUMMARY = re.compile(r"\bsummary\b|总结|摘要|tóm tắt", re.IGNORECASE)
_MORE = {  # what may follow a value of these kinds: "Berlin and Oslo", "nuts or milk"
    "never_ship": re.compile(r"(?:,? (?:and|or) |, )([A-Z][\w-]+(?: [A-Z][\w-]+)*)"),
    "allergy": re.compile(r"(?:,? (?:and|or) |, )((?:pea)?nuts?|milk|gluten|wheat|eggs?|soy|fish)\b"),
}
_QUOTED = re.compile(r"^>.*$", re.MULTILINE)
_LONGEST = 120  # characters of a value (picked): more is a story
_QUESTION_LENGTH = 2_000  # characters at the end of a message in which a question is looked for (picked)


def facts_in(messages: Iterable[MessageLike]) -> list[Fact]:
    """What the user stated in these messages: in user and system messages, and in whatever calls itself a summary.

    What an assistant said otherwise, and what tools returned, is not the user's word. Later statements replace earlier
    ones of the same kind, unless several may hold.

    >>> [str(fact) for fact in facts_in([{"role": "user", "content": "I live in Shanghai, please note that."}])]
    ['The user lives in Shanghai.']
    """
    known: dict[str, dict[str, str]] = {}
    for message in as_messages(messages):
        if not _is_word_of_user(message):
            continue
        for fact in _stated(message.text):
            values = known.setdefault(fact.kind, {})
            if not KINDS[fact.kind].many:
                values.clear()
            values.setdefault(fact.value.casefold(), fact.value)
    return [Fact(kind, value) for kind in KINDS for value in known.get(kind, {}).values()]


def asked_about(text: str) -> str | None:
    """The kind of fact that a text asks for, or None.

    >>> asked_about("where did I say I live?"), asked_about("where is order A-1042?")
    ('home', None)
    """
    own = own_words(text)[-_QUESTION_LENGTH:]
    for kind, patterns in _ASKED.items():
        if any(pattern.search(own) for pattern in patterns):
            return kind
    return None


def language(text: str) -> str:
    """``zh`` where the text has Chinese characters, ``vi`` where it has letters of Vietnamese alone, else ``en``."""
    if re.search(r"[一-鿿]", text):
        return "zh"
    return "vi" if re.search(r"[ăđơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ]", text.lower()) else "en"


def own_words(text: str) -> str:
    """A text without the lines that it quotes (``> ...``): somebody else wrote those."""
    return _QUOTED.sub("", text) if ">" in text else text


def _is_word_of_user(message: Message) -> bool:
    if message.role in ("user", "system", "developer"):
        return True
    return message.role == "assistant" and bool(_SUMMARY.search(message.text[:200]))


@lru_cache(maxsize=4096)
def _stated(text: str) -> tuple[Fact, ...]:
    """The facts that one text states, in the order of the text."""
    text = own_words(text)
    found: list[tuple[int, Fact]] = []
    for kind, patterns in _STATED.items():
        for start, end, value in _values(text, patterns):
            found.append((start, Fact(kind, value.replace(",", "") if kind == "budget" else value)))
            while more := _MORE[kind].match(text, end) if kind in _MORE else None:
                found.append((more.start(), Fact(kind, more[1])))
                end = more.end()
    others = [fact.value for _, fact in found if fact.kind != "note"]
    # "Please note that I live in Shanghai" is one fact and not two.
    found = [(at, f) for at, f in found if f.kind != "note" or not any(value in f.value for value in others)]
    return tuple(fact for _, fact in sorted(found, key=lambda pair: pair[0]))


def _values(text: str, patterns: tuple[re.Pattern[str], ...]) -> Iterator[tuple[int, int, str]]:
    for pattern in patterns:
        for match in pattern.finditer(text):
            value = next((group for group in match.groups() if group), "").strip(" \"'“”「」")
            if value and len(value) <= _LONGEST and not _is_question(text, match.end()):
                yield match.start(), match.end(), value


def _is_question(text: str, end: int) -> bool:
    """Whether the sentence that goes on at ``end`` is a question: it asks, and states nothing."""
    mark = re.search(r"[\n.!?。！？]", text[end:])
    return mark is not None and mark[0] in "?？"
