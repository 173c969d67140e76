"""The live dashboard: `panel serve dashboards/live.py --args RUNS…` (or `jitmem serve`)."""

import sys

from jitmem_lab.views.live import live_page

live_page(sys.argv[1:] or ["runs"]).servable(title="JitMem Lab · live")
