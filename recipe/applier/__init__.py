"""Rewrites installed packages: standard library only, because it also runs inside images with their own Python.

`source` finds places in a file, `ops/` make edits of one kind each, `plan` decides every edit of a patch set
in memory, `commit` writes all files or none, `manifest` records what was written so that it can be undone.
"""
