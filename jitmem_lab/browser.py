"""Where the browser is with which pages are measured, tested and pictured."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from .render import clean_text

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
"""Programs that are looked for; JITMEM_CHROMIUM names another."""


def find_browser() -> str | None:
    """The browser of JITMEM_CHROMIUM, else one that is installed; None without any."""
    named = os.environ.get("JITMEM_CHROMIUM")
    return shutil.which(named) if named else next(filter(None, map(shutil.which, BROWSERS)), None)


def take_pictures(pages: Sequence[Path], width: int, tallest: int, scripts: bool = False) -> list[str]:
    """A PNG beside each page: their paths, or one sentence that says why there are none.

    Args:
        pages: HTML files.
        width, tallest: Pixels; what lies below is cut off.
        scripts: Whether the pages' own scripts run, as plotly's figures need.
    """
    browser = find_browser()
    if browser is None:
        return ["no pictures: no chromium here; install it, or set JITMEM_CHROMIUM to its path"]
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        return ["no pictures: playwright is not installed; pip install playwright"]
    taken = []
    try:
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(
                executable_path=browser, args=["--no-sandbox", "--disable-gpu"]
            )
            size = {"width": width, "height": 600}
            context = chromium.new_context(viewport=size, java_script_enabled=scripts, offline=True)  # type: ignore[arg-type]
            for path in pages:
                page = context.new_page()
                page.goto(path.resolve().as_uri())
                box = page.locator("body").bounding_box() or {"height": 600}
                clip = {"x": 0, "y": 0, "width": width, "height": min(tallest, box["height"])}
                page.screenshot(path=path.with_suffix(".png"), full_page=True, clip=clip)  # type: ignore[arg-type]
                taken.append(str(path.with_suffix(".png")))
                page.close()
            chromium.close()
    except (Error, OSError) as error:
        first = clean_text((str(error).strip() or type(error).__name__).splitlines()[0], 200)
        return [*taken, f"no more pictures: {browser} failed ({first})"]
    return taken
