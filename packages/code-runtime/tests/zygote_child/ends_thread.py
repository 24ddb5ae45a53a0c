"""Has a thread that it ends before a fork, as OpenBLAS does."""

import os
import threading

stop = threading.Event()
thread = threading.Thread(target=stop.wait, daemon=True)
thread.start()


def end() -> None:
    """End the thread."""
    stop.set()
    thread.join()


os.register_at_fork(before=end)
