"""The abort signal of a run, and the text of its reason."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_REASON: Final = "This operation was aborted"
UNRENDERABLE_REASON: Final = "<unrenderable abort reason>"
# A reason ends up in a result that a language model reads; 64 KiB is far more than any useful
# reason needs.
MAX_REASON_BYTES: Final = 65_536


@final
class AbortSignal:
    """Tell runs to stop, once and for good.

    One signal may serve any number of requests. `abort` may be called from any thread and from a
    signal handler: nothing here takes a lock; every decision is one atomic operation on a dict.

    Examples:
        >>> from code_runtime import AbortSignal
        >>> signal = AbortSignal()
        >>> signal.abort("no longer needed")
        >>> signal.aborted, signal.reason
        (True, 'no longer needed')
    """

    __slots__ = ("__weakref__", "_listeners", "_outcome")

    def __init__(self) -> None:
        self._outcome: dict[str, tuple[object]] = {}
        self._listeners: dict[object, Callable[[], object]] = {}

    @property
    def aborted(self) -> bool:
        """Whether `abort` has been called."""
        return bool(self._outcome)

    @property
    def reason(self) -> object:
        """The reason of the first `abort`; None before it, or when it gave none."""
        outcome = self._outcome.get("reason")
        return None if outcome is None else outcome[0]

    def abort(self, reason: object = None) -> None:
        """Stop every run that holds this signal; only the first call counts.

        Args:
            reason: Any object; its text becomes the message of the failure (see `render_reason`).
        """
        mine = (reason,)
        if self._outcome.setdefault("reason", mine) is mine:
            self._notify()

    def add_listener(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call a function once when the signal fires; at once when it has fired already.

        The function runs in the thread that aborts, perhaps inside a signal handler: it may only
        hand the news on, for example with `loop.call_soon_threadsafe`. An exception that it raises
        is reported through `sys.excepthook` and stops neither the other listeners nor `abort`.

        Args:
            listener: The function.

        Returns:
            A function that removes the listener again; harmless when called twice or after the
            signal has fired.
        """
        token = object()
        self._listeners[token] = listener
        if self._outcome:
            # `abort` may have looked at the listeners just before this one arrived; whoever pops it
            # calls it.
            self._call(token)

        def remove() -> None:
            self._listeners.pop(token, None)

        return remove

    def __repr__(self) -> str:
        return f"AbortSignal(aborted={self.aborted})"

    def _notify(self) -> None:
        interrupt: BaseException | None = None
        while True:
            # tuple(dict) can fail while another thread changes the dict; dict.copy() is one atomic
            # step.
            tokens = tuple(self._listeners.copy())
            if not tokens:
                break
            for token in tokens:
                try:
                    self._call(token)
                except BaseException as error:
                    interrupt = interrupt or error
        if interrupt is not None:
            raise interrupt

    def _call(self, token: object) -> None:
        listener = self._listeners.pop(token, None)
        if listener is None:
            return
        try:
            listener()
        except Exception as error:
            sys.excepthook(type(error), error, error.__traceback__)


def render_reason(reason: object) -> str:
    """Turn an abort reason into the message of the failure, whatever the object does.

    A string stays as it is, an exception becomes `Name: message`, None the default text, anything
    else its `str`. An object without usable text gives a fixed placeholder. At most 65,536 UTF-8
    bytes.

    Raises:
        KeyboardInterrupt: Ctrl-C arrived meanwhile; it is never mistaken for a fault of the object.
    """
    try:
        return _cut(_text(reason))
    except KeyboardInterrupt:
        raise
    except BaseException:
        return UNRENDERABLE_REASON


def _text(reason: object) -> str:
    if reason is None:
        return DEFAULT_REASON
    if isinstance(reason, BaseException):
        name = type(reason).__name__
        message = _plain(str(reason))
        return f"{name}: {message}" if message else name
    return _plain(reason) if isinstance(reason, str) else _plain(str(reason))


def _plain(text: str) -> str:
    # A subclass of str may override everything; only its characters are wanted.
    return text if type(text) is str else str.__str__(text)


def _cut(text: str) -> str:
    if len(text) * 4 <= MAX_REASON_BYTES:
        return text
    data = text[:MAX_REASON_BYTES].encode("utf-8", "surrogatepass")
    if len(data) <= MAX_REASON_BYTES and len(text) <= MAX_REASON_BYTES:
        return text
    end = MAX_REASON_BYTES - len("…".encode())
    while data[end] & 0xC0 == 0x80:  # not inside a character
        end -= 1
    return data[:end].decode("utf-8", "surrogatepass") + "…"
