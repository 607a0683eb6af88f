"""`python -m app` opens the window."""

from app.main import main

if __name__ == "__main__":
    raise SystemExit(main())
