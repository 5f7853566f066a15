"""Take the pictures that only a browser can take, light and dark: the site, a notebook, a drawn plan and the shell.

Run it with: make screenshots. It needs Debian's package chromium (or another Chromium on the PATH) and tmux.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
SCHEMES = ("light", "dark")
DESKTOP, PHONE = (1280, 860), (390, 800)
TERMINAL = (96, 32)
"""Columns and rows."""

COLOURS = 256
"""Colours of a picture: screens of text need few, and the file is half as large."""

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)

COLOURS_OF_A_TERMINAL = {
    "light": "ffffff 1f2328 24292f cf222e 116329 4d2d00 0969da 8250df 1b7c83 "
    "6e7781 57606a a40e26 1a7f37 633c01 218bff a475f9 3192aa 8c959f",
    "dark": "0d1117 e6edf3 484f58 ff7b72 3fb950 d29922 58a6ff bc8cff 39c5cf "
    "b1bac4 6e7681 ffa198 56d364 e3b341 79c0ff d2a8ff 56d4dd f0f6fc",
}
"""The background, the foreground, and the eight colours with their brighter forms, in each scheme."""

SCREEN = """<!doctype html><meta charset="utf-8"><title>bigjoin shell</title>
<style>body {{ margin: 0; padding: 14px 18px; background: {background}; color: {foreground}; width: max-content }}
pre {{ margin: 0; font: 14px/normal "DejaVu Sans Mono", ui-monospace, monospace }}</style><pre>{code}</pre>"""


def chromium() -> str | None:
    """Return the path of a Chromium, if there is one."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextmanager
def browsing() -> Iterator[Browser]:
    """Start a browser that keeps nothing and calls nobody."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS), chromium_sandbox=False)
        try:
            yield browser
        finally:
            browser.close()


def build_site(folder: Path) -> None:
    """Build the site into a folder; a broken link ends the build with what is wrong."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the site is not built:\n{done.stdout}{done.stderr}")


class Quiet(SimpleHTTPRequestHandler):
    """Serve files, and say nothing."""

    def log_message(self, *_: object) -> None:
        """Keep it to oneself."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on loopback; give its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def open_page(
    browser: Browser,
    address: str,
    scheme: str = "light",
    size: tuple[int, int] = DESKTOP,
    watch: Callable[[Page], None] | None = None,
) -> Page:
    """Open an address in a window of its own; `watch` sees the window before it loads anything."""
    width, height = size
    page = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": height}).new_page()
    if watch is not None:
        watch(page)
    page.goto(address, wait_until="networkidle")
    return page


def save(picture: bytes, path: Path) -> None:
    """Write a picture with few colours."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)


def example_graph(folder: Path) -> Path:
    """Write the bundled graph to a folder, as somebody's edge list."""
    path = folder / "soc-Epinions1.txt"
    path.write_bytes(gzip.decompress((files("bigjoin.data") / "soc-Epinions1.txt.gz").read_bytes()))
    return path


def bigjoin(*arguments: str, cwd: Path) -> None:
    """Run a command of this environment's bigjoin."""
    subprocess.run([sys.executable, "-m", "bigjoin", *arguments], cwd=cwd, check=True, capture_output=True)


def explained(folder: Path) -> Path:
    """Write a drawn plan, with what a run did, and return its file."""
    example_graph(folder)
    page = folder / "explain.html"
    bigjoin("explain", "house", "soc-Epinions1.txt", "--undirected", "--unique", "--analyze", "--html", page.name, cwd=folder)
    return page


PROMPT = "bigjoin>"

ASKED_IN_THE_SHELL = (
    r"\count --unique triangle",
    "q(a, count(b) as friends) := edge(a, b) having count(b) >= 1500 order by friends desc",
    "MATCH (a)-[]->(b)-[]->(c) WHERE NOT (a)-[]->(c) RETURN a, b, c LIMIT 3;",
    r"\estimate --unique house",
)


def shell_screen(folder: Path) -> str:
    """Ask the shell some questions in a real terminal; return the screen with its escape sequences."""
    example_graph(folder)
    columns, rows = map(str, TERMINAL)
    tmux = ["tmux", "-L", f"bigjoin-{os.getpid()}", "-f", os.devnull]
    command = f"{shlex.quote(sys.executable)} -m bigjoin shell soc-Epinions1.txt --undirected"
    subprocess.run([*tmux, "new-session", "-d", "-x", columns, "-y", rows, command], cwd=folder, check=True)

    def screen(*options: str) -> str:
        return subprocess.run([*tmux, "capture-pane", "-p", *options], capture_output=True, text=True, check=True).stdout

    def has_prompt() -> bool:
        return any(line.rstrip() == PROMPT for line in screen().splitlines())

    try:
        until(has_prompt)
        for question in ASKED_IN_THE_SHELL:
            typed = re.sub(";$", r"\;", question)  # a semicolon at the end is tmux's
            subprocess.run([*tmux, "send-keys", "-l", typed], check=True)
            until(lambda question=question: f"{PROMPT} {question}" in screen())
            subprocess.run([*tmux, "send-keys", "Enter"], check=True)
            until(has_prompt)
        return screen("-e")
    finally:
        subprocess.run([*tmux, "kill-server"], check=False, capture_output=True)


def until(holds: Callable[[], bool], most: float = 120.0) -> None:
    """Wait until something holds; a screen is drawn in pieces, so it has to hold twice."""
    end, times = time.monotonic() + most, 0
    while times < 2:
        if time.monotonic() > end:
            raise TimeoutError(f"nothing came of it in {most:g} s")
        time.sleep(0.2)
        times = times + 1 if holds() else 0


def theme(scheme: str) -> TerminalTheme:
    """Return the colours of a terminal."""
    background, foreground, *others = (tuple(bytes.fromhex(colour)) for colour in COLOURS_OF_A_TERMINAL[scheme].split())
    return TerminalTheme(background, foreground, others[:8], others[8:])


def screen_page(screen: str, scheme: str) -> str:
    """Return a terminal's screen as a page."""
    console = Console(record=True, width=TERMINAL[0], file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(screen.rstrip("\n")), soft_wrap=True)
    return console.export_html(theme=theme(scheme), code_format=SCREEN, inline_styles=True)


SHOWN = {
    "site": ("site/index.html", DESKTOP),
    "notebook": ("site/notebooks/first-steps.html#look-inside", (1280, 1040)),
    "explain": ("explain.html", (960, 1040)),
}
"""The pages that are shown, and how much of each."""


def take(folder: Path, site: Path, browser: Browser) -> dict[str, Path]:
    """Take every picture into a folder, with a site that was built, and return them by name."""
    folder.mkdir(parents=True, exist_ok=True)
    taken = {}
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        (work / "site").symlink_to(site)
        explained(work)
        screen = shell_screen(work)
        for scheme in SCHEMES:
            (work / f"shell-{scheme}.html").write_text(screen_page(screen, scheme))
        with served(work) as address:
            for scheme in SCHEMES:
                for name, (page, size) in SHOWN.items():
                    window = open_page(browser, f"{address}/{page}", scheme, size)
                    taken[f"{name}-{scheme}"] = shot(window, folder / f"{name}-{scheme}.png")
                window = open_page(browser, f"{address}/shell-{scheme}.html", scheme)
                taken[f"shell-{scheme}"] = shot(window, folder / f"shell-{scheme}.png", "body")
    return taken


def shot(page: Page, path: Path, part: str | None = None) -> Path:
    """Save what a window shows, or a part of its page, and close it."""
    save(page.locator(part).screenshot() if part else page.screenshot(), path)
    page.context.close()
    return path


def main() -> None:
    """Take all pictures into the folder that is named, else into docs/pictures."""
    if chromium() is None or shutil.which("tmux") is None:
        sys.exit("screenshots need chromium and tmux: apt-get install chromium tmux")
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    with tempfile.TemporaryDirectory() as site, browsing() as browser:
        build_site(Path(site))
        taken = take(folder, Path(site), browser)
    for path in taken.values():
        sys.stdout.write(f"{path}: {path.stat().st_size // 1024} KB\n")


if __name__ == "__main__":
    main()
