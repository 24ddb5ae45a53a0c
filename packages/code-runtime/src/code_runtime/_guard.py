"""Start a warden: ``python -I -S _guard.py CHANNEL HOST_PID DIRECTORY [FOLDER ENTRY MODULE...]``.

Run by path, never imported. The work is in the siblings, because a module that is imported comes
from the bytecode cache while a script is compiled at each start.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from code_runtime._guard_warden import main
else:
    # Appended, not put first: no file of the package may shadow the standard library.
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from _guard_warden import main

    # What a zygote imports, and a program that is forked from it, must not find this folder.
    sys.path.pop()

if __name__ == "__main__":
    program = main(sys.argv[1:])
    if program is not None:
        # A program that was forked from a zygote: it goes on from here, and ends like a script.
        program()
