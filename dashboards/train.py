"""The training dashboard: `panel serve dashboards/train.py --args RUNS…` (or `jitmem serve`)."""

import sys

from jitmem_lab.views.train import train_page

train_page(sys.argv[1:] or ["runs"]).servable(title="JitMem Lab · train")
