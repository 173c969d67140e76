"""The judge dashboard: `panel serve dashboards/judge.py --args RUNS…` (or `jitmem serve`)."""

import sys

from jitmem_lab.views.judge import judge_page

judge_page(sys.argv[1:] or ["runs"]).servable(title="JitMem Lab · judge")
