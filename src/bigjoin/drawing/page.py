"""An HTML page around pictures, tables and text: complete in itself, in light and in dark."""

from __future__ import annotations

from bigjoin.drawing.figure import FONT, MONO_FONT, STYLE
from bigjoin.markup import Markup, element, fit, joined

_RULES = f"""
.bigjoin-page{{font-family:{FONT};font-size:14px;line-height:1.5}}
.bigjoin-page h2{{font-size:1.25em;margin:0 0 .3em}}
.bigjoin-page h3{{font-size:1em;margin:1.4em 0 .4em}}
.bigjoin-page p{{margin:.3em 0;max-width:62em}}
.bigjoin-page code,.bigjoin-page pre{{font-family:{MONO_FONT};font-size:12.5px}}
.bigjoin-page pre{{overflow-x:auto;padding:.7em .9em;border-radius:6px;background:rgba(128,128,128,.1)}}
.bigjoin-page pre{{line-height:1.45;margin:.5em 0}}
.bigjoin-page .bigjoin-quiet{{opacity:.7}}
.bigjoin-page .bigjoin-beside{{display:flex;flex-wrap:wrap;gap:0 2em;align-items:center}}
.bigjoin-page figure{{margin:.4em 0;overflow-x:auto}}
.bigjoin-page figcaption{{font-size:.93em;max-width:66em}}
.bigjoin-page details{{margin:1em 0}}
.bigjoin-page summary{{cursor:pointer}}
.bigjoin-page dl{{display:grid;grid-template-columns:max-content 1fr;gap:.15em 1.1em;margin:.6em 0}}
.bigjoin-page dt{{opacity:.7}}
.bigjoin-page dd{{margin:0;overflow-wrap:anywhere}}
""".replace("\n", "")

_BODY = "body{{margin:0;padding:24px;background:{}}}"

FRAGMENT_STYLE = Markup(f"<style>{STYLE}{_RULES}</style>")
"""The rules of a part of a page, which leave the rest of the page as it is."""


def fragment(*parts: object) -> Markup:
    """Return a part of a page, such as a notebook shows."""
    return element("div", FRAGMENT_STYLE, *parts, class_="bigjoin bigjoin-page")


def page(title: str, *parts: object) -> str:
    """Return a complete page."""
    return joined(
        Markup("<!DOCTYPE html>\n"),
        element(
            "html",
            element(
                "head",
                element("meta", charset="utf-8"),
                element("meta", name="viewport", content="width=device-width,initial-scale=1"),
                element("meta", name="color-scheme", content="light dark"),
                element("title", fit(title)),
                element(
                    "style",
                    Markup(_BODY.format("#ffffff") + "@media (prefers-color-scheme:dark){" + _BODY.format("#0d1117") + "}"),
                ),
            ),
            element("body", fragment(*parts)),
            lang="en",
        ),
        Markup("\n"),
    )
