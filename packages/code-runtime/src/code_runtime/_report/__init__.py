"""Shows a recorded run: as a page for a browser, or as text for a terminal.

Everything that is shown comes from a program that is not trusted. `_view` cuts it to a bounded part
and spells out what could command a reader's screen; `_page` and `_terminal` only lay that out.
"""

from __future__ import annotations

from ._page import render_page

__all__ = ["render_page"]
