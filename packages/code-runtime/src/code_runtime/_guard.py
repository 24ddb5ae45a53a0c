"""Start a warden: ``python -I -S _guard.py CHANNEL HOST_PID [DIRECTORY]``.

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

if __name__ == "__main__":
    main(sys.argv[1:])
