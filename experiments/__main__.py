"""`python -m experiments` is `bqvi` from a checkout."""

from experiments.cli import main

if __name__ == "__main__":
    main()
