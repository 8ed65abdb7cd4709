"""Benchmarks of one API: figures with the runs that they come from. They need an address and no cluster."""
