"""Rewrites installed packages: standard library only, because it also runs inside images with their own Python.

`source` finds places in a file, `ops/` make edits of one kind each, `plan` decides every edit of a patch set in
memory, `combine` and `check` look at the result of a file's edits, `states` is what a plan says. `commit` applies a
plan and takes it back, `journal` writes all files or none, `manifest` records what was written.
"""
