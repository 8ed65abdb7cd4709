"""Rewrites installed packages: standard library only, because it also runs inside images with their own Python.

`source` is a file as bytes and tree, `walk` goes over trees, `ops/` make edits of one kind each, `plan` decides every
edit of a patch set in memory. `combine` puts the edits of a file together and `check` looks at the result, for which
`reparse` parses what was touched and `names` tells what is bound. `states` is what a plan says. `commit` applies a
plan and takes it back, `journal` writes all files or none, `manifest` records what was written.
"""
