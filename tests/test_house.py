"""Rules of the house that no linter knows: one word a thing, typed values, and a map that is true."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "src" / "bigjoin"
MODULES = {path.relative_to(LIBRARY): ast.parse(path.read_text()) for path in LIBRARY.rglob("*.py")}

JSON_LIKE = {
    "answers.py": "the stats of a run, which users read",
    "cli/options.py": "answers that --json prints",
    "index/manifest_file.py": "where a manifest's JSON is read and written",
    "local/count_job.py": "the stats of a run",
    "local/strategy.py": "the stats of a run",
    "spark/balanced.py": "the stats of a run",
    "spark/round_stats.py": "the stats of a run",
    "spark/rounds.py": "the stats of a run",
}
"""Where `dict[str, Any]` stands, and what for; everything else has types of its own."""

BARE_QUANTITIES = {"FEW", "MANY", "MOST", "MUCH", "SMALL", "LARGE", "ALONE", "SOON", "KEPT", "SAMPLE", "LEAST", "ENOUGH", "FAR"}


def defined(tree: ast.Module) -> list[str]:
    """The classes, aliases and constants of a module."""
    found = []
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        found += [node.name] if isinstance(node, ast.ClassDef) else [t.id for t in targets if isinstance(t, ast.Name)]
    return [name for name in found if name[:1].isupper()]


def test_a_name_is_defined_once():
    places = defaultdict(list)
    for path, tree in MODULES.items():
        for name in defined(tree):
            places[name].append(str(path))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_a_constant_says_what_it_is():
    assert {name for tree in MODULES.values() for name in defined(tree)} & BARE_QUANTITIES == set()


def test_values_have_types():
    untyped = {str(path) for path in MODULES if "dict[str, Any]" in (LIBRARY / path).read_text()}
    assert untyped == set(JSON_LIKE)


def test_the_map_is_true():
    """Every file that ARCHITECTURE.md names exists, and every folder of the library is in its code map."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = set(re.findall(r"`([\w/]+\.py)`", text))
    known = {str(path) for path in MODULES} | {path.name for path in MODULES}
    assert {name for name in named if name not in known and not (ROOT / name).exists()} == set()
    folders = {path.parts[0] for path in MODULES if len(path.parts) > 1}
    assert {folder for folder in folders if f"| `{folder}/`" not in text} == set()
