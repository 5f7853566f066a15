"""What mkdocs does besides rendering docs/: pages made of files elsewhere, notebooks, and links that leave the folder.

README, ARCHITECTURE, CONTRIBUTING and CHANGELOG become pages, and so do the notebooks and the examples with their output. A
link to such a file leads to its page. A link to any other file of the repository becomes plain words: the site lacks that file.
"""

from __future__ import annotations

import html
import json
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PAGES_OF_THE_ROOT = {
    "README.md": "overview.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
EXAMPLES = "examples.md"

FENCED = re.compile(r"^( *)(`{3,})[^\n]*\n.*?^\1\2 *$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")
PICTURE = re.compile(
    r"<picture>\s*<source [^>]*srcset=\"(?P<dark>[^\"]+)\"[^>]*>\s*"
    r"<img (?P<rest>[^>]*)src=\"(?P<light>[^\"]+)\"[^>]*>\s*</picture>"
)
CODE_IN_A_TABLE = re.compile(r"(?<=[ (])`[^`\n]*\\\|[^`\n]*`")
"""Code with an escaped bar: GitHub wants the backslash there, and this site would show it."""

MEASURED = re.compile(r"(?<=\| )> \d[\d.,]* s|\b\d[\d.,]* s\b(?= \(| \|)|\([\d.,]+ to [\d.,]+\)(?= \|)")
"""A time in a cell of a table, and the range behind it: each stays on a line."""

DARK_IN_A_DRAWING = re.compile(r"@media\s*\(\s*prefers-color-scheme:\s*dark\s*\)")

outputs: dict[str, list[str]] = {}
"""By the page of a notebook, the HTML that its cells returned, in their order."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made of files outside of the folder, or of notebooks."""
    for name, page in PAGES_OF_THE_ROOT.items():
        if (ROOT / name).exists():
            files.append(File.generated(config, page, content=(ROOT / name).read_text()))
    files.append(File.generated(config, EXAMPLES, content=examples_page()))
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        page = notebook.src_uri.removesuffix(".ipynb") + ".md"
        content, outputs[page] = notebook_page(json.loads(notebook.content_string), posixpath.basename(notebook.src_uri))
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at the pages of the site, and give each scheme its picture."""
    del config, files
    place = page.file.src_uri
    elsewhere = {page: name for name, page in PAGES_OF_THE_ROOT.items()}
    written_in = elsewhere.get(place, posixpath.join("docs", place))

    def link(found: re.Match[str]) -> str:
        return linked(found, written_in, place)

    parts, end = [], 0
    for fence in FENCED.finditer(markdown):
        parts += [LINK.sub(link, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    whole = PICTURE.sub(for_each_scheme, "".join([*parts, LINK.sub(link, markdown[end:])]))
    whole = CODE_IN_A_TABLE.sub(lambda found: found[0].replace(r"\|", "|"), whole)
    return MEASURED.sub(lambda found: found[0].replace(" ", "\u00a0"), whole)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put in what the cells of a notebook returned, and let drawings follow the scheme of the page."""
    del config, files
    for number, output in enumerate(outputs.get(page.file.src_uri, [])):
        shown = f'<div class="cell-output" data-search-exclude>{output}</div>'
        content = content.replace(f'<div id="output-{number}"></div>', shown)
    return DARK_IN_A_DRAWING.sub('[data-md-color-scheme="slate"]', content)


def linked(found: re.Match[str], written_in: str, place: str) -> str:
    """Return a link as the site needs it: to the page of a file, or only its words if the site has no such page."""
    is_picture, words, (target, hash_, anchor) = found[1], found[2], found[3].partition("#")
    if not target or re.match(r"[a-z]+:", target):
        return found[0]
    file = posixpath.normpath(posixpath.join(posixpath.dirname(written_in), target))
    if file.startswith("examples/"):
        page, hash_, anchor = EXAMPLES, "#" if file.endswith(".py") else "", posixpath.basename(file)
        anchor = anchor.removesuffix(".py") if hash_ else ""
    elif file in PAGES_OF_THE_ROOT:
        page = PAGES_OF_THE_ROOT[file]
    elif file.startswith("docs/"):
        page = file.removeprefix("docs/") + ("/index.md" if (ROOT / file).is_dir() else "")
        page = page.removesuffix(".ipynb") + ".md" if page.endswith(".ipynb") else page
    else:
        return words if (ROOT / file).exists() else found[0]
    return f"{is_picture}[{words}]({posixpath.relpath(page, posixpath.dirname(place) or '.')}{hash_}{anchor})"


def for_each_scheme(found: re.Match[str]) -> str:
    """Return a picture that is there in two schemes as two, of which the stylesheet shows one."""
    light, dark = found["light"], found["dark"]
    return "".join(f'<img {found["rest"]}src="{path}#only-{scheme}">' for path, scheme in ((light, "light"), (dark, "dark")))


def examples_page() -> str:
    """Return a page with every example and what it prints."""
    parts = [
        "# Examples\n\nComplete programs, each followed by what it prints. The tests run them. "
        "They are in the folder `examples`; start one with `python examples/NAME.py`.\n"
    ]
    for program in sorted((ROOT / "examples").glob("*.py")):
        title = program.stem.replace("_", " ").capitalize()
        parts.append(f"## {title} {{ #{program.stem} }}\n\n`examples/{program.name}`\n")
        parts.append(f"```python\n{program.read_text()}```\n")
        if (printed := program.with_suffix(".out")).exists():
            parts.append(f"```text\n{printed.read_text()}```\n")
    return "\n".join(parts)


def notebook_page(notebook: dict, name: str) -> tuple[str, list[str]]:
    """Return a notebook as Markdown, with a mark for each output that is HTML, and these outputs."""
    parts, shown = [], []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```" if source else "")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            rich = data.get("text/html") or data.get("image/svg+xml")
            plain = output.get("text") if output["output_type"] == "stream" else data.get("text/plain")
            if output.get("name") == "stderr":
                continue
            if rich is not None:
                parts.append(f'<div id="output-{len(shown)}"></div>')
                shown.append("".join(rich))
            elif plain is not None:
                parts.append(f'<div id="output-{len(shown)}"></div>')
                shown.append(f"<pre><code>{html.escape(''.join(plain).rstrip())}</code></pre>")
    title, _, rest = "\n\n".join(parts).partition("\n")
    return f"{title}\n\n[Download this notebook]({name}){{ download }}\n{rest}", shown
