"""The diagrams of docs/how-it-works.md: they are as their program draws them, and well-formed."""

from __future__ import annotations

import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]
DRAWN = runpy.run_path(str(ROOT / "scripts" / "figures.py"))["pictures"]()


@pytest.mark.parametrize("name", DRAWN)
def test_a_diagram_is_as_it_is_drawn(name):
    assert (ROOT / "docs" / "pictures" / name).read_text() == DRAWN[name], "run `make figures`"


@pytest.mark.parametrize("name", DRAWN)
def test_a_diagram_is_well_formed_and_nothing_leaves_it(name):
    root = ElementTree.fromstring(DRAWN[name])
    assert root.get("aria-label")
    width, height = float(root.get("width")), float(root.get("height"))
    for x, y in placed(root, 0.0, 0.0):
        assert 0 <= x <= width
        assert 0 <= y <= height


def placed(element, x, y):
    """Give the places of texts and boxes, with all that moves them."""
    if moved := element.get("transform"):
        dx, dy = map(float, moved.removeprefix("translate(").removesuffix(")").split())
        x, y = x + dx, y + dy
    tag = element.tag.rpartition("}")[2]
    if tag in ("text", "rect") and element.get("x") is not None:
        yield x + float(element.get("x")), y + float(element.get("y"))
        if tag == "rect":
            yield x + float(element.get("x")) + float(element.get("width")), y + float(element.get("y"))
    for child in element:
        yield from placed(child, x, y)


def test_every_diagram_is_on_a_page():
    page = (ROOT / "docs" / "how-it-works.md").read_text()
    assert {name for name in DRAWN if f"(pictures/{name})" not in page} == set()
