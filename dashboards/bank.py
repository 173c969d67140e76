"""The bank dashboard: `panel serve dashboards/bank.py --args RUNS…` (or `jitmem serve`)."""

import sys

from jitmem_lab.views.bank import bank_page

bank_page(sys.argv[1:] or ["runs"]).servable(title="JitMem Lab · bank")
