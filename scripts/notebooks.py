"""Run the notebooks of the documentation again, all in one kernel with one Spark session, and keep what they print.

Run it with: make notebooks
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
CELL_SECONDS = 180
FORGET = "%reset -f"
"""What a kernel executes between two notebooks: names go, Spark stays."""


def stored() -> list[Path]:
    """Return the notebooks in the order in which they are read."""
    return [FOLDER / f"{name}.ipynb" for name in ("first-steps", "payments", "paper")]


@contextmanager
def kernel(folder: Path, variables: dict[str, str]) -> Iterator[KernelManager]:
    """Start a kernel of this Python in an empty folder; it is reached through files, not through a network."""
    manager = KernelManager(kernel_name="python3", transport="ipc", ip=str(folder / ".kernel"))
    manager.start_kernel(cwd=str(folder), env={**os.environ, "PYSPARK_PYTHON": sys.executable, **variables})
    try:
        yield manager
    finally:
        manager.shutdown_kernel()


def executed(paths: Sequence[Path], variables: dict[str, str] | None = None) -> Iterator[NotebookNode]:
    """Give notebooks as they are after all of their cells were executed; an error in a cell is an error here."""
    with tempfile.TemporaryDirectory() as folder, kernel(Path(folder), variables or {}) as manager:
        for path in paths:
            notebook = nbformat.read(path, as_version=4)
            first = nbformat.v4.new_code_cell(FORGET)
            notebook.cells.insert(0, first)
            NotebookClient(notebook, km=manager, timeout=CELL_SECONDS, record_timing=False).execute()
            notebook.cells.remove(first)
            yield notebook


def tidied(notebook: NotebookNode) -> NotebookNode:
    """Return a notebook without what differs from run to run and tells nothing."""
    for number, cell in enumerate((cell for cell in notebook.cells if cell.cell_type == "code"), start=1):
        cell.execution_count = number
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = number
            if output.output_type == "stream":
                output.text = re.sub(r"[ \t]+$", "", output.text, flags=re.MULTILINE)
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


def main() -> None:
    """Execute all notebooks, and store them with what they print."""
    paths = stored()
    for path, notebook in zip(paths, executed(paths, {"BIGJOIN_PROGRESS": "off"}), strict=True):
        nbformat.validate(notebook)
        nbformat.write(tidied(notebook), path)
        sys.stdout.write(f"{path.name}\n")


if __name__ == "__main__":
    main()
