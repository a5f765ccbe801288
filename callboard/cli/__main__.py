"""`python -m callboard.cli`: the same as `callboard`."""

from . import main

if __name__ == "__main__":
    main()
