"""The inspect dashboard: `panel serve dashboards/inspect.py --args RUNS…` (or `jitmem serve`)."""

import sys

from jitmem_lab.views.inspect import inspect_page

inspect_page(sys.argv[1:] or ["runs"]).servable(title="JitMem Lab · inspect")
