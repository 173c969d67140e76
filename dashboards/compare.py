"""The compare dashboard: `panel serve dashboards/compare.py --args RUNS…` (or `jitmem serve`)."""

import sys

from jitmem_lab.views.compare import compare_page

compare_page(sys.argv[1:] or ["runs"]).servable(title="JitMem Lab · compare")
