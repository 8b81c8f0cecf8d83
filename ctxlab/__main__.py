"""``python -m ctxlab`` is the command line."""

from ctxlab.cli import main

main()
