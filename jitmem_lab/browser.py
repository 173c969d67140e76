"""Where the browser is with which pages are measured, tested and pictured."""

from __future__ import annotations

import os
import shutil

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
"""Programs that are looked for; JITMEM_CHROMIUM names another."""


def find_browser() -> str | None:
    """The browser of JITMEM_CHROMIUM, else one that is installed; None without any."""
    named = os.environ.get("JITMEM_CHROMIUM")
    return shutil.which(named) if named else next(filter(None, map(shutil.which, BROWSERS)), None)
