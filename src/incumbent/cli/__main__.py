"""``python -m incumbent.cli``: the command `incumbent`, where scripts are not on the path."""

from incumbent.cli import main

if __name__ == "__main__":
    main()
