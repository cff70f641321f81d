"""`python -m experiments` is `bqvi` from a checkout."""

import sys

EXTRA = frozenset({"PIL", "jinja2", "joblib", "pandas", "pyarrow", "rich", "typer"})


def main() -> None:
    """Run the command line, or say what to install where packages are missing; the version needs none."""
    try:
        from experiments.harness import cli

        cli.main()
    except ModuleNotFoundError as error:
        if error.name not in EXTRA:
            raise
        if sys.argv[1:] == ["--version"]:
            from experiments.harness import provenance

            print(f"bqvi {provenance.version()}")
            return
        raise SystemExit(
            f'bqvi\'s command line needs {error.name}; install it with: pip install "bqvi[experiments]"'
        ) from None


if __name__ == "__main__":
    main()
