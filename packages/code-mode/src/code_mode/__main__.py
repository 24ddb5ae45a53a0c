"""The command `code-mode` as `python -m code_mode`."""

from __future__ import annotations

from ._cli import main

if __name__ == "__main__":
    main()
