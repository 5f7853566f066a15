"""The site as a browser shows it: strict to build, complete without a network, searched from the keyboard, fit for a phone."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
import screenshots
from screenshots import PHONE, build_site, open_page, served

LOADED = re.compile(
    r"<(?:script|img|iframe|source|embed)\b[^>]*\b(?:src|srcset)=\"?(https?:|//)[^>]*"
    r"|<link\b(?=[^>]*rel=\"?(?:stylesheet|preconnect|preload|icon|manifest|dns-prefetch))[^>]*href=\"?(https?:|//)[^>]*"
)
"""What a page loads from another machine as soon as it is opened; links that a reader may follow are no such thing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    build_site(folder)
    return folder


def test_nothing_is_loaded_from_elsewhere(site):
    for page in site.rglob("*.html"):
        assert LOADED.search(page.read_text()) is None, page
    for style in site.rglob("*.css"):
        assert re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", style.read_text()) is None, style


def skip_without(program: str, found: str | None) -> None:
    """Skip a test that needs a program; fail if BIGJOIN_TESTS_NEED says that it has to be there, as in CI."""
    if found is None:
        is_needed = program in os.environ.get("BIGJOIN_TESTS_NEED", "").split()
        (pytest.fail if is_needed else pytest.skip)(f"there is no {program} here")


@pytest.fixture(scope="module")
def browser():
    skip_without("chromium", screenshots.chromium())
    with screenshots.browsing() as browser:
        yield browser


@pytest.fixture(scope="module")
def address(site):
    with served(site) as address:
        yield address


@pytest.fixture
def opened(browser, request):
    """Open pages, and in the end see that nothing went wrong on them and that no request left the machine."""
    contexts, wrong = [], []

    def watch(page):
        page.set_default_timeout(20_000)
        page.on("console", lambda told: wrong.append(told.text) if told.type == "error" and "404" not in told.text else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda asked: wrong.append(asked.url) if not is_here(asked.url) else None)
        page.on(
            "response",
            lambda got: wrong.append(got.url) if got.status >= 400 and not got.url.endswith("/favicon.ico") else None,
        )

    def open_one(address, scheme="light", size=screenshots.DESKTOP):
        page = open_page(browser, address, scheme, size, watch)
        contexts.append(page.context)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert wrong == []


def is_here(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "file:", "data:", "blob:", "about:"))


@pytest.mark.browser
def test_search_from_the_keyboard(opened, address):
    search(opened(f"{address}/index.html"))


@pytest.mark.browser
def test_search_without_a_server(opened, site):
    search(opened((site / "index.html").as_uri()))


def search(page):
    """Search as somebody does who leaves the mouse alone, and arrive where the word is."""
    page.keyboard.press("/")
    page.keyboard.type("heavy-light")
    page.wait_for_selector(".md-search-result__link")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/*.html?h=*")
    assert "heavy-light" in page.locator("article").inner_text()


@pytest.mark.browser
def test_the_scheme_follows_the_system_and_the_toggle(opened, address):
    def paper(page):
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    light, dark = (opened(f"{address}/index.html", scheme) for scheme in screenshots.SCHEMES)
    assert paper(light) == "rgb(255, 255, 255)"
    assert paper(dark) == "rgb(13, 17, 23)"
    for wanted in ("rgb(255, 255, 255)", "rgb(13, 17, 23)"):
        light.locator("label[for^=__palette]:visible").click()
        assert paper(light) == wanted
    light.locator("label[for^=__palette]:visible").click()
    assert paper(light) == "rgb(255, 255, 255)"


@pytest.mark.browser
@pytest.mark.slow
def test_pages_fit_a_phone(opened, address, site):
    """No page is wider than a phone, and every picture of every page is there."""
    page = opened(f"{address}/index.html", size=PHONE)
    for file in sorted(site.rglob("*.html")):
        name = file.relative_to(site).as_posix()
        if name == "404.html":
            continue
        page.goto(f"{address}/{name}", wait_until="load")
        assert page.title(), name
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0], name
        lost = page.evaluate("[...document.images].filter(i => i.offsetParent && !i.naturalWidth).map(i => i.src)")
        assert lost == [], name


@pytest.mark.browser
def test_drawings_have_a_size(opened, address, site):
    page = opened(f"{address}/index.html")
    sizes = page.evaluate("[...document.querySelectorAll('article img[src*=\".svg\"]')].map(i => [i.width, i.height])")
    assert sizes
    assert all(width > 100 and height > 40 for width, height in sizes)


@pytest.mark.browser
def test_screenshots_are_taken(browser, site, tmp_path):
    """All of them, light and dark, small, and none of them blank."""
    skip_without("tmux", shutil.which("tmux"))
    taken = screenshots.take(tmp_path, site, browser)
    assert {f"{name}-{scheme}" for name in ("site", "notebook", "explain", "shell") for scheme in screenshots.SCHEMES} == set(
        taken
    )
    for path in taken.values():
        assert 4_000 < path.stat().st_size < 150_000, path
    kept = {path.name for path in Path(screenshots.PICTURES).glob("*.png")}
    assert {path.name for path in taken.values()} <= kept
