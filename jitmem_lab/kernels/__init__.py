"""Kernels by name: where a notebook runs is the kernelspec's business, never the notebook's.

A name is written once by `jitmem kernels add` and then works in `jitmem run -k NAME`, in plain
`papermill -k NAME` and in JupyterLab's menu alike: with another Python on this machine (`provisioner`),
over ssh (`ssh` and `tunnel`, through the package sshpyk) or on a Jupyter gateway (`gateway`, `bridge`).
"""
