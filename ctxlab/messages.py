"""What a message is: an immutable value, to and from an OpenAI-shaped dict.

At the edge a message is the dict that every SDK sends: ``role``, ``content`` (text, None or a list of parts),
``tool_calls``, ``tool_call_id``, ``name``, and whatever else the log had. Inside it is a frozen `Message` over
the same data, so a fork cannot change its parent and a token count can be kept by content. `Message` reads and
keeps; it does not judge. Whether a provider would accept it is `providers`' question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ctxlab.errors import MalformedMessage

MessageLike: TypeAlias = "Message | Mapping[str, Any]"


class FrozenDict(Mapping[str, Any]):
    """A mapping that cannot be changed, hashable if all its values are. Keeps the order of its keys."""

    __slots__ = ("_data", "_hash")

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = dict(data)
        self._hash: int | None = None

    def __getitem__(self, key: str) -> Any:
        return self._data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._data.items()))
        return self._hash

    def __repr__(self) -> str:
        return f"FrozenDict({self._data!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (self._data,)


def freeze(value: Any) -> Any:
    """JSON data as immutable data: dicts become `FrozenDict`, lists become tuples.

    Raises `MalformedMessage` for anything that JSON has no word for (a set, an object, a non-text key).

    >>> freeze({"a": [1, {"b": None}]})["a"][1]["b"] is None
    True
    """
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, FrozenDict):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise MalformedMessage(f"a key of type {type(key).__name__} ({key!r}); JSON keys are text", index=None)
        return FrozenDict({key: freeze(item) for key, item in value.items()})
    if isinstance(value, (list, tuple)):
        return tuple(freeze(item) for item in value)
    raise MalformedMessage(
        f"a value of type {type(value).__name__} inside a message",
        hint="a message holds JSON data only: text, numbers, true, false, null, lists and objects",
        index=None,
    )


def thaw(value: Any) -> Any:
    """The inverse of `freeze`: fresh dicts and lists that the caller may change."""
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [thaw(item) for item in value]
    return value


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that an assistant message carries.

    ``id`` and ``name`` are None where the data has no text there; ``arguments`` is the JSON text as the model
    wrote it (it need not parse). ``data`` is the whole call as it came.
    """

    data: FrozenDict

    @property
    def id(self) -> str | None:
        """The call's id. Ids repeat inside real conversations: pair by place, see `rounds`."""
        value = self.data.get("id")
        return value if isinstance(value, str) else None

    @property
    def name(self) -> str | None:
        """The name of the function that is called."""
        function = self.data.get("function")
        value = function.get("name") if isinstance(function, Mapping) else None
        return value if isinstance(value, str) else None

    @property
    def arguments(self) -> str | None:
        """The arguments as JSON text."""
        function = self.data.get("function")
        value = function.get("arguments") if isinstance(function, Mapping) else None
        return value if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class Message:
    """One immutable chat message.

    ``data`` is the message as it came; the other fields are read from it. Two messages are equal when their data
    is. ``content`` is text, None, or a tuple of parts (frozen mappings with a ``type``).
    """

    data: FrozenDict
    role: str = field(init=False, compare=False, repr=False)
    content: str | tuple[Any, ...] | None = field(init=False, compare=False, repr=False)
    tool_calls: tuple[ToolCall, ...] = field(init=False, compare=False, repr=False)
    tool_call_id: str | None = field(init=False, compare=False, repr=False)
    name: str | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        data = self.data
        role = data.get("role")
        if not isinstance(role, str):
            found = f"with the role {role!r}, which is not text" if "role" in data else "without a role"
            raise MalformedMessage(
                f"a message {found} (keys: {', '.join(data) or 'none'})",
                hint='a message is {"role": "user", "content": "..."}',
                index=None,
            )
        content = data.get("content")
        if content is not None and not isinstance(content, (str, tuple)):
            raise MalformedMessage(
                f"content of type {type(content).__name__} in a {role} message; expected text, null or a list of parts",
                hint="write it as text, or as parts: [{'type': 'text', 'text': '...'}]",
                index=None,
            )
        calls = data.get("tool_calls") or ()
        if not isinstance(calls, tuple) or not all(isinstance(call, Mapping) for call in calls):
            raise MalformedMessage(
                f"tool_calls of type {type(calls).__name__} in a {role} message; expected a list of objects",
                hint='a call is {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}',
                index=None,
            )
        for name, value in (
            ("role", role),
            ("content", content),
            ("tool_calls", tuple(ToolCall(call) for call in calls)),
            ("tool_call_id", _text_or_none(data.get("tool_call_id"))),
            ("name", _text_or_none(data.get("name"))),
        ):
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, message: MessageLike, index: int | None = None) -> Message:
        """A message from a dict (or from a message, which comes back as it is).

        ``index`` is the message's place in its list, for the error. Raises `MalformedMessage`.
        """
        if isinstance(message, Message):
            return message
        try:
            if not isinstance(message, Mapping):
                raise MalformedMessage(
                    f"a {type(message).__name__} where a message (a dict) was expected",
                    hint='a message is {"role": "user", "content": "..."}',
                )
            return cls(freeze(message))
        except RecursionError:
            raise MalformedMessage(f"message {index}: nested too deeply to read", index=index) from None
        except MalformedMessage as error:
            where = "" if index is None else f"message {index}: "
            raise MalformedMessage(f"{where}{error}", hint=error.hint, index=index) from None

    def to_dict(self) -> dict[str, Any]:
        """The message as a fresh dict, with every key it came with, in the order in which they came."""
        result: dict[str, Any] = thaw(self.data)
        return result

    def replace(self, **changes: Any) -> Message:
        """The message with some keys changed; a value of None for ``tool_calls`` and other optional keys stays None.

        >>> Message.of({"role": "user", "content": "a"}).replace(content="b").text
        'b'
        """
        return Message.of({**self.data, **changes})

    @property
    def text(self) -> str:
        """The message's text: the content, or its text parts one after another ('' where there is none)."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part_text(part) or "" for part in self.content or ())

    @property
    def is_system(self) -> bool:
        """Whether it is an instruction of the application: role ``system`` or ``developer``."""
        return self.role in ("system", "developer")


def part_text(part: Any) -> str | None:
    """The text of one content part: a bare string, or the ``text`` of a part of type text; None for an image etc."""
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping) and part.get("type") in ("text", "input_text", "output_text", None):
        return _text_or_none(part.get("text"))
    return None


def as_messages(history: Iterable[MessageLike]) -> tuple[Message, ...]:
    """A history as immutable messages. Raises `MalformedMessage` with the index of the first that is not one."""
    check_history(history)
    return tuple(Message.of(message, index) for index, message in enumerate(history))


def check_history(history: object) -> None:
    """Raises `MalformedMessage` for what cannot be a list of messages: one message, a text, None, a number."""
    if isinstance(history, (str, bytes, Mapping)) or not isinstance(history, Iterable):
        raise MalformedMessage(
            f"a {type(history).__name__} where a list of messages was expected",
            hint='a history is [{"role": "user", "content": "..."}, ...]',
            index=None,
        )


def to_dicts(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages as fresh dicts."""
    return [message.to_dict() for message in messages]


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None
