"""Checks that run inside a patched image, with its own Python and no GPU: standard library only, beside vLLM itself.

`request` is what the build asks, `result` what comes back. `patches` looks at what the applier wrote, `imports` imports
it, `serve` gives the profile's command line to this vLLM, `versions` compares with the base image, `extensions`,
`headers` and `tools` look for what the hardware and the profile need. `main` runs them all.
"""
