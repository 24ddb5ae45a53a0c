"""The host's functions as a program sees them: `await tools.add({"a": 1})`.

A call sends nothing before it is awaited. Each member counts how many calls were made and how many
were awaited, so that a forgotten `await` is reported by name.

Ids are counted from 0 by one counter, claimed in the lock that also sends the frame, because the
host takes the exact successor only. A program that forges call frames of its own makes that counter
lag behind: every id that the host has taken is answered once, so a reply with an id that was not
claimed yet moves the counter past it, and an honest call under a forged id gets the answer to that
one. Neither waits for ever.

Standard library only, CPython 3.10 or later.
"""

from __future__ import annotations

import gc
from asyncio import AbstractEventLoop, Future, get_running_loop
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, cast

from .channel import Channel
from .inbound import read_reply, reply_id
from .lossless import LosslessJsonError, encode
from .wire import MAX_FRAME_BYTES, Namespace, ReplyError, ReplyOk

_MAX_LISTED = 12  # members that an error names
_LARGE_BYTES = 65_536  # of a reply that the collector of garbage is kept from
_POSTED_BYTES = 32_768  # of calls that wait for the end of the turn
_MAX_SHOWN = 34  # characters of a name inside a type's name, which lossless.py cuts at 60


class Member:
    """One function of a namespace, and what its calls need.

    Args:
        calls: What sends the calls.
        global_name: The namespace.
        name: The function.
        failure: Makes the exception of a call that failed, from its message.
    """

    __slots__ = ("_type", "awaited", "calls", "failure", "head", "made", "shown")

    def __init__(
        self, calls: Calls, global_name: str, name: str, failure: Callable[[str], BaseException]
    ) -> None:
        self.calls = calls
        self.failure = failure
        self.shown = shown_name(global_name, name)
        self.head = b',"global":%b,"name":%b,"args":' % (encode(global_name), encode(name))
        self.made = 0
        self.awaited = 0
        self._type: type[PendingCall] | None = None

    def __call__(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> PendingCall:
        """Make a call of exactly one argument."""
        if len(args) == 1 and not keywords:
            value = args[0]
        elif not args and len(keywords) == 1 and "args" in keywords:
            value = keywords["args"]
        else:
            raise TypeError(_wrong_arguments(self.shown, args, keywords))
        self.made += 1
        kind = self._type
        if kind is None:
            # The type's name is what Python and the value boundary show where await is missing.
            short = shown_short(self.shown)
            kind = type(f"call of {short} without await", (PendingCall,), {"__slots__": ()})
            self._type = kind
        return kind(self, value)


class PendingCall:
    """A call that is sent when it is awaited; a coroutine for all that asyncio wants of one."""

    __slots__ = ("__weakref__", "_member", "_state", "_value")

    def __init__(self, member: Member, value: object) -> None:
        self._member = member
        self._value = value
        self._state: Iterator[Any] | None = None

    def __await__(self) -> Generator[Any, None, Any]:
        """Send the call and wait for its reply."""
        if self._state is not None:
            raise RuntimeError(f"cannot await the same call of {self._member.shown} twice")
        value, self._value = self._value, None
        future = self._member.calls.start(self._member, value)
        self._state = state = future.__await__()
        return state

    def send(self, value: Any) -> Any:
        """Go on, as a task does with a coroutine."""
        state = self._state
        if state is None:
            state = self.__await__()
        return cast("Generator[Any, Any, Any]", state).send(value)

    def throw(self, error: Any, value: Any = None, trace: Any = None) -> Any:
        """Raise an exception inside the call, for example its cancellation."""
        state = self._state
        if state is None:
            self._state = iter(())
            raise error if value is None else value
        return cast("Generator[Any, Any, Any]", state).throw(error if value is None else value)

    def close(self) -> None:
        """Give the call up."""
        state = self._state
        if state is None:
            self._state = iter(())
        else:
            getattr(state, "close", int)()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>" if self._state is None else f"<{self._member.shown}>"


if TYPE_CHECKING:
    Waiting = dict[int, tuple[Future[Any], AbstractEventLoop, Member]]


class Calls:
    """Sends calls, and gives each reply to the call that waits for it.

    Args:
        channel: The wire.
        loop: The loop of the program; replies are read there.
        waiting: Where the calls are kept that have no reply yet.
    """

    def __init__(self, channel: Channel, loop: AbstractEventLoop, waiting: Waiting) -> None:
        self._channel = channel
        self._loop = loop
        self._next_id = 0
        self._posted: list[bytes] = []  # frames that go out with others
        self._posted_bytes = 0
        self._in_turn = False  # whether the loop has sent a call since it last looked at the socket
        self._waiting = waiting

    def start(self, member: Member, value: object) -> Future[Any]:
        """Send a call and return the future of its result."""
        member.awaited += 1
        channel = self._channel
        if channel.foreign:  # asyncio itself does not run in a copy
            raise member.failure(_in_a_copy(member.shown))
        loop = get_running_loop()
        future: Future[Any] = Future(loop=loop)
        try:
            text = encode(value)
        except LosslessJsonError as error:
            future.set_exception(member.failure(_lossy(member.shown, error)))
            return future
        if len(text) + len(member.head) + 64 > MAX_FRAME_BYTES:
            future.set_exception(member.failure(_too_large(member.shown, len(text))))
            return future
        with channel.lock:
            call_id = self._next_id
            self._next_id = call_id + 1
            self._waiting[call_id] = (future, loop, member)
            frame = b'{"type":"call","id":%d%b%b}\n' % (call_id, member.head, text)
            self._posted.append(frame)
            self._posted_bytes += len(frame)
            # The first call of a turn goes at once, further ones together at its end: each write
            # costs as much as making two frames.
            if loop is not self._loop or not self._in_turn or self._posted_bytes > _POSTED_BYTES:
                self.flush()
        if loop is self._loop and not self._in_turn:
            self._in_turn = True
            loop.call_soon(self._end_turn)
        return future

    def flush(self) -> None:
        """Send the calls that wait for others."""
        with self._channel.lock:
            if self._posted:
                self._channel.send(*self._posted)
                # Sent twice, if a signal handler raises here, they do no harm: the host takes the
                # next id only. Lost, they would.
                self._posted.clear()
                self._posted_bytes = 0

    def _end_turn(self) -> None:
        self._in_turn = False
        self.flush()

    def receive(self) -> None:
        """Read what has arrived; the loop calls this when there is something."""
        self._channel.receive()
        self.deliver()

    def deliver(self) -> None:
        """Hand out the replies that have been read."""
        for line in self._channel.lines():
            if isinstance(line, MemoryError):
                self._undecodable(line.args[0])
                continue
            try:
                reply = _read_reply(line)
            except MemoryError:
                self._undecodable(line)
                continue
            except Exception as error:
                self._undecodable(line, f"cannot be read: {error}")
                continue
            del line
            call_id = reply["id"]
            waiting = self._take(call_id)
            if waiting is None:
                continue
            if reply["ok"] is True:
                _resolve(waiting, _set_result, reply["value"])
            else:
                _resolve(waiting, _set_exception, waiting[2].failure(reply["message"]))

    def _take(self, call_id: int) -> tuple[Future[Any], AbstractEventLoop, Member] | None:
        waiting = self._waiting.pop(call_id, None)
        if waiting is None and call_id >= self._next_id:
            with self._channel.lock:  # the host has taken forged calls up to this one
                self._next_id = max(self._next_id, call_id + 1)
        return waiting

    def _undecodable(
        self, line: bytes | bytearray, reason: str = "does not fit into memory"
    ) -> None:
        """Fail the one call whose reply cannot be read."""
        call_id = reply_id(bytes(line[:200]))
        waiting = None if call_id is None else self._take(call_id)
        if waiting is not None:
            message = f"Cannot call {waiting[2].shown}: the reply {reason}"
            _resolve(waiting, _set_exception, waiting[2].failure(message))


def _read_reply(line: bytes | bytearray) -> ReplyOk | ReplyError:
    if len(line) < _LARGE_BYTES or not _collector_is_on():
        return read_reply(line)  # type: ignore[arg-type]  # a buffer serves as well
    # The collector would look at each of a million new containers again and again.
    _disable_collector()
    try:
        return read_reply(line)  # type: ignore[arg-type]
    finally:
        _enable_collector()


_disable_collector = gc.disable
_enable_collector = gc.enable
_collector_is_on = gc.isenabled
_set_result = Future.set_result
_set_exception = Future.set_exception


def _resolve(
    waiting: tuple[Future[Any], AbstractEventLoop, Member],
    settle: Callable[[Future[Any], Any], None],
    outcome: object,
) -> None:
    future, loop, member = waiting
    if loop is member.calls._loop:
        if not future.done():
            settle(future, outcome)
        return
    try:
        loop.call_soon_threadsafe(lambda: None if future.done() else settle(future, outcome))
    except RuntimeError:  # the loop of another thread, closed in the meantime
        return


# Namespaces


def build_namespaces(
    calls: Calls, specs: list[Namespace]
) -> tuple[dict[str, object], list[Member]]:
    """Make the globals that a program gets, and the list of all their members."""
    scope: dict[str, object] = {}
    members: list[Member] = []
    for spec in specs:
        error_class: type[BaseException] = RuntimeError
        attribute = None
        declared = spec.get("errorClass")
        if declared is not None:
            body = {"__module__": "__main__", "__qualname__": declared["name"]}
            error_class = type(declared["name"], (Exception,), body)
            attribute = declared["memberNameProperty"]
            scope[declared["name"]] = error_class
        table: dict[str, Callable[..., PendingCall]] = {}
        for name in spec["names"]:
            member = Member(
                calls, spec["global"], name, _failure_maker(error_class, attribute, name)
            )
            members.append(member)
            table[name] = _function(member, name)
        scope[spec["global"]] = _namespace(spec["global"], table)
    return scope, members


def _failure_maker(
    error_class: type[BaseException], attribute: str | None, name: str
) -> Callable[[str], BaseException]:
    def fail(message: str) -> BaseException:
        error = error_class(message)
        if attribute is not None:
            setattr(error, attribute, name)
        return error

    return fail


def _function(member: Member, name: str) -> Callable[..., PendingCall]:
    def call(*args: Any, **keywords: Any) -> PendingCall:
        return member(args, keywords)

    call.__name__ = name
    call.__qualname__ = member.shown
    call.__module__ = "__main__"
    return call


def _namespace(global_name: str, table: dict[str, Callable[..., PendingCall]]) -> object:
    """Make an object that has the members as attributes and items, and no other attribute.

    Its class keeps nothing on the object: a member may be called `__class__` or `__dict__`.
    """

    def get_attribute(self: object, name: str) -> object:
        try:
            return table[name]
        except KeyError:
            raise AttributeError(_unknown(global_name, name, table)) from None

    def get_item(self: object, name: object) -> object:
        if type(name) is str and name in table:
            return table[name]
        raise KeyError(_unknown(global_name, name, table))

    def refuse(self: object, name: str, value: object = None) -> NoReturn:
        raise AttributeError(f"{global_name} is read-only, {name!r} cannot be changed")

    body = {
        "__slots__": (),
        "__module__": "__main__",
        "__getattribute__": get_attribute,
        "__getitem__": get_item,
        "__setattr__": refuse,
        "__delattr__": refuse,
        "__contains__": lambda self, name: type(name) is str and name in table,
        "__iter__": lambda self: iter(list(table)),
        "__len__": lambda self: len(table),
        "__bool__": lambda self: True,
        "__dir__": lambda self: list(table),
        "__repr__": lambda self: f"<{global_name}: {_listed(table)}>",
    }
    return type(global_name, (), body)()


def unawaited_report(members: list[Member]) -> list[str]:
    """Say for each member how many of its calls were never awaited."""
    lines = []
    for member in members:
        count = member.made - member.awaited
        if count:
            times = "a call" if count == 1 else f"{count} calls"
            lines.append(
                f"{times} of {member.shown} was never awaited and did not happen: "
                f"write await {member.shown}(...)"
                if count == 1
                else f"{times} of {member.shown} were never awaited and did not happen: "
                f"write await {member.shown}(...), or asyncio.gather for several at once"
            )
    return lines


# Texts


def shown_name(global_name: str, name: str) -> str:
    """Spell a member as a program writes it."""
    return f"{global_name}.{name}" if name.isidentifier() else f"{global_name}[{name!r}]"


def shown_short(shown: str) -> str:
    """Shorten a member's name to what fits into the name of a type."""
    text = shown.replace("\0", "?").encode("utf-8", "replace").decode()
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."


def _listed(table: dict[str, Any]) -> str:
    names = list(table)
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return (", ".join(names[:_MAX_LISTED]) or "no members") + more


def _unknown(global_name: str, name: object, table: dict[str, Any]) -> str:
    shown = repr(name) if type(name) is str else type(name).__name__
    if len(shown) > 80:
        shown = f"{shown[:77]}..."
    return f"{global_name} has no member {shown}; declared: {_listed(table)}"


def _wrong_arguments(shown: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    if not args and not keywords:
        return (
            f"Cannot call {shown}: no argument, expected one: write {shown}({{}}) if it takes none"
        )
    named = ", ".join(f'"{name}": ...' for name in list(keywords)[:4])
    example = f"{{{named}}}" if named and not args else '{"name": ...}'
    seen = (
        f"{len(args) + len(keywords)} arguments"
        if len(args) + len(keywords) > 1
        else (f"the keyword argument {next(iter(keywords))}")
    )
    return f"Cannot call {shown}: {seen}, expected one: write {shown}({example}) with named members"


def _lossy(shown: str, error: LosslessJsonError) -> str:
    return f"Cannot call {shown}: the argument must be lossless JSON: {error}"


def _too_large(shown: str, size: int) -> str:
    return (
        f"Cannot call {shown}: the argument has {size} bytes, "
        f"expected less than {MAX_FRAME_BYTES} bytes"
    )


def _in_a_copy(shown: str) -> str:
    return f"Cannot call {shown}: this is a forked copy of the program, expected the original"
