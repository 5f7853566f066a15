"""The command `bigjoin`, also as `python -m bigjoin`: an interrupt ends it with a word, even while modules are imported."""

from __future__ import annotations

import sys


def main() -> None:
    """Run a command."""
    try:
        from bigjoin.cli.main import main as run
    except KeyboardInterrupt:
        sys.stderr.write("bigjoin: interrupted\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
