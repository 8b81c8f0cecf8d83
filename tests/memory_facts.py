"""Facts in four languages, the queries that should find them, and a clock that stands until it is moved."""

from __future__ import annotations

from datetime import UTC, datetime

DAY = datetime(2026, 9, 4, 10, tzinfo=UTC)
HELLO = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]

FACTS = {
    "home": "The user lives in Shanghai.",
    "nuts": "The user is allergic to peanuts.",
    "school": "The user's daughter starts school in September.",
    "french": "User prefers answers in French.",
    "家": "用户住在浦东新区。",
    "花生": "用户对花生过敏。",
    "咖啡": "用户喜欢喝咖啡，不加糖。",
    "女儿": "他的女儿九月开始上学。",
    "東京": "ユーザーは東京に住んでいます。",
    "豆": "彼女はピーナッツアレルギーがあります。",
    "朝": "毎朝コーヒーを飲みます。",
    "nhà": "Người dùng sống ở Đà Nẵng.",
    "lạc": "Người dùng dị ứng với đậu phộng.",
    "cà phê": "Tôi thích uống cà phê sữa đá.",
    "bạn": "Bạn tôi tên là Hùng.",
    "bàn": "Cái bàn màu đen ở phòng khách.",
    "cluster": "Deploys run on the Kubernetes 集群 in ap-southeast-1.",
}
QUERIES = [
    ("where do I live?", "home"),
    ("SHANGHAI", "home"),
    ("peanut butter", "nuts"),
    ("which schools for my daughter", "school"),
    ("french", "french"),
    ("我住在哪里？", "家"),
    ("浦东", "家"),
    ("过敏", "花生"),
    ("花生", "花生"),
    ("咖啡要加糖吗", "咖啡"),
    ("糖", "咖啡"),
    ("女儿什么时候上学", "女儿"),
    ("東京", "東京"),
    ("どこに住んでいますか", "東京"),
    ("アレルギー", "豆"),
    ("ｱﾚﾙｷﾞｰ", "豆"),
    ("コーヒー", "朝"),
    ("Đà Nẵng", "nhà"),
    ("da nang", "nhà"),
    ("song o dau", "nhà"),
    ("đậu phộng", "lạc"),
    ("dau phong", "lạc"),
    ("cà phê", "cà phê"),
    ("ca phe", "cà phê"),
    ("bạn", "bạn"),
    ("bàn", "bàn"),
    ("集群", "cluster"),
    ("我的 Kubernetes 在哪", "cluster"),
    ("ap-southeast-1", "cluster"),
]


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self):
        self.now = DAY

    def __call__(self):
        return self.now


def texts(found):
    """The texts of what a search found, in its order."""
    return [one.item.text for one in found]
