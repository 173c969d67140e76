"""Parts of `jitmem_lab.sweep`: cells, who plays them, what is checked beforehand, the bar, the command."""
