"""ALFWorld: real games of the official data, and households that the package generates itself."""
