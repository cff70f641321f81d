"""`python -m experiments` is `bqvi` from a checkout."""

import sys

EXTRA = frozenset({"PIL", "jinja2", "joblib", "pandas", "pyarrow", "rich", "typer"})


def main() -> None:
    """Run the command line, or say what to install where packages are missing; version and list need none."""
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
        if sys.argv[1:2] == ["list"] and not any(word.startswith("-") for word in sys.argv[1:]):
            from experiments.harness import registry

            names = [name for name in registry.EXPERIMENTS if name.startswith("".join(sys.argv[2:3]))]
            for name in names:
                print(f"{name:<{max(map(len, names))}}  {registry.first_line(name)}")
            print('To run them: pip install "bqvi[experiments]"', file=sys.stderr)
            return
        raise SystemExit(
            f'bqvi\'s command line needs {error.name}; install it with: pip install "bqvi[experiments]"'
        ) from None


if __name__ == "__main__":
    main()
