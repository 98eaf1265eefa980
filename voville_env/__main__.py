"""`python -m voville_env` is the `voville` command."""

from voville_env.cli import main

if __name__ == "__main__":
    main()
