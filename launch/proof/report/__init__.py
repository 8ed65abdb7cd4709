"""A certificate and what surrounds it as one page for people."""
