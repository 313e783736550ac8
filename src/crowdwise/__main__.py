"""The command `crowdwise`, also as `python -m crowdwise`.

The command line takes a moment to import and to build. Until it handles Ctrl-C and SIGTERM itself, they end the process
with one line instead of a traceback.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


def _stop(number: int, frame: Any) -> None:
    """End the process: nothing has been started."""
    sys.stderr.write(f"error: stopped by {NAMES[signal.Signals(number)]}. Rerun the command to start over.\n")
    sys.stderr.flush()
    os._exit(128 + number)


def main() -> None:
    """Run the command line."""
    for number in NAMES:
        signal.signal(number, _stop)
    from crowdwise.cli import main as run_command

    run_command()


if __name__ == "__main__":
    main()
