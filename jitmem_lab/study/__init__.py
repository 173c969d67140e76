"""The study: the paper's tables and figures as one list of runs, at four sizes, and its report."""
