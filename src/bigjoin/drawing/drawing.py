"""A finished picture, as users get it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bigjoin.drawing.figure import Figure, document
from bigjoin.drawing.page import page
from bigjoin.drawing.saving import HTML_SUFFIXES, check_picture, save
from bigjoin.markup import Markup, fit


@dataclass(frozen=True, repr=False)
class Drawing:
    """A picture, which notebooks show and `save` writes.

    It is SVG without scripts, and refers to nothing outside. It is dark where readers ask for that. Several of them may stand
    on one page.

    Examples:
        >>> drawing = bj.draw("triangle")
        >>> drawing
        Drawing('triangle')
        >>> drawing.save("triangle.svg")
    """

    svg: str
    """The picture as an SVG document."""
    title: str = ""
    """What it shows."""

    @classmethod
    def of(cls, figure: Figure, title: str) -> Drawing:
        """Return a figure as a picture."""
        return cls(document(figure, title), fit(title))

    def save(self, path: str | Path) -> None:
        """Write the picture to a file.

        Args:
            path: A file that ends in `.svg`, or in `.html` for a page with the picture. It appears when it is complete, and
                replaces an existing one.
        """
        target = Path(path)
        check_picture(target)
        save(target, page(self.title, Markup(self.svg)) if target.suffix.lower() in HTML_SUFFIXES else self.svg)

    def _repr_html_(self) -> str:
        """Return the picture for a notebook."""
        return f'<div style="overflow-x:auto">{self.svg}</div>'

    def __repr__(self) -> str:
        return f"Drawing({self.title!r})"
