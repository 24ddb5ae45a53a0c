"""Leaves a thread running."""

import threading
import time

threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
