"""The command `bigjoin`, also as `python -m bigjoin`: an interrupt ends it with a word, even while modules are imported."""

from __future__ import annotations

import sys

from bigjoin.cli.interrupts import spare_imports


def main() -> None:
    """Run a command."""
    try:
        spare_imports()
        from bigjoin.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("bigjoin: interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
