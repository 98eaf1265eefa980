"""The file of the call store: its tables, how a connection opens, how an exchange is a row."""

from __future__ import annotations

import json
import operator
import sqlite3
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from pave_policy.llm.exchange import OUTCOMES, Exchange, canonical
from pave_policy.site import Site
from voville_env.errors import InvalidValueError, invalid

SCHEMA = 1
"""Version of the tables."""

APPLICATION = 0x564F5643
"""What SQLite notes in the file to tell it from other programs' databases."""

PATIENCE_SECONDS = 60.0
"""How long to wait for other processes to finish writing."""

SMALLEST_FILE = 100
"""Bytes of the header of every SQLite file."""

# Numbers stand before the long texts, so that sums need not read through these.
_COLUMNS = {
    "id": "INTEGER PRIMARY KEY",
    "run": "TEXT NOT NULL",
    "key": "TEXT NOT NULL",
    "sample": "TEXT NOT NULL",
    "operation": "TEXT NOT NULL",
    "scenario": "TEXT NOT NULL",
    "policy": "TEXT NOT NULL",
    "seed": "INTEGER NOT NULL",
    "agent": "TEXT NOT NULL",
    "day": "INTEGER NOT NULL",
    "tick": "INTEGER NOT NULL",
    "rule_set": "TEXT",
    "created": "REAL NOT NULL",
    "outcome": "TEXT NOT NULL",
    "attempts": "INTEGER NOT NULL",
    "prompt_tokens": "INTEGER",
    "completion_tokens": "INTEGER",
    "cost": "REAL NOT NULL",
    "latency": "REAL NOT NULL",
    "finish": "TEXT",
    "detail": "TEXT NOT NULL",
    "refusal": "TEXT",
    "text": "TEXT",
    "reasoning": "TEXT",
    "request": "TEXT NOT NULL",
    "raw": "TEXT NOT NULL",
}
INSERTION = "INSERT INTO exchanges ({}) VALUES ({})".format(
    ", ".join(name for name in _COLUMNS if name != "id"),
    ", ".join(
        f"CAST(:{name} AS TEXT)" if kind.startswith("TEXT") else f":{name}"
        for name, kind in _COLUMNS.items()
        if name != "id"
    ),
)
"""Takes the columns that `to_row` makes."""

_DEFINITIONS = (
    "CREATE TABLE exchanges ({})".format(", ".join(f"{n} {kind}" for n, kind in _COLUMNS.items())),
    "CREATE INDEX exchanges_by_key ON exchanges (key, sample)",
    "CREATE INDEX exchanges_by_run ON exchanges"
    " (run, attempts, prompt_tokens, completion_tokens, cost)",
    "CREATE TABLE claims (key TEXT NOT NULL, sample TEXT NOT NULL, holder TEXT NOT NULL,"
    " host TEXT NOT NULL, pid INTEGER NOT NULL, started TEXT NOT NULL, expires REAL NOT NULL,"
    " PRIMARY KEY (key, sample)) WITHOUT ROWID",
    f"PRAGMA user_version = {SCHEMA}",
    f"PRAGMA application_id = {APPLICATION}",
)


def _encoded(text: str) -> bytes:
    """UTF-8 that also keeps lone surrogates, which a reply cut inside an escape leaves behind."""
    return text.encode("utf-8", "surrogatepass")


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


# SQLite would store a NumPy number as bytes and cannot bind a lone surrogate.
_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "TEXT": _encoded,
    "INTEGER": operator.index,
    "REAL": float,
}


def to_row(exchange: Exchange, run: str) -> dict[str, Any]:
    """Turns an exchange into the columns of its row.

    Args:
        exchange: What to write.
        run: The run that made the call.

    Returns:
        A value for each column but the id, in the type that SQLite is to store.

    Raises:
        InvalidValueError: The outcome is unknown, or the request is not plain JSON.
    """
    if exchange.outcome not in OUTCOMES:
        raise invalid("outcome of an exchange", exchange.outcome, OUTCOMES)
    values = {item.name: getattr(exchange, item.name) for item in fields(exchange)}
    values |= asdict(values.pop("site"))
    values |= {"run": run, "created": time.time(), "request": canonical(exchange.request)}
    return {
        name: None if value is None else _CONVERSIONS[_COLUMNS[name].split()[0]](value)
        for name, value in values.items()
    }


def from_row(row: sqlite3.Row) -> Exchange:
    """Reads an exchange from its row.

    Args:
        row: All columns.

    Returns:
        The exchange.
    """
    values = {name: row[name] for name in row.keys() if name not in ("id", "created")}
    site = Site(**{item.name: values.pop(item.name) for item in fields(Site)})
    return Exchange(site=site, request=json.loads(values.pop("request")), **values)


def open_database(path: Path) -> sqlite3.Connection:
    """Opens a store, and creates it where there is none.

    Args:
        path: The file.

    Returns:
        A connection without transactions of its own accord, for the use of any thread.

    Raises:
        InvalidValueError: The file is not a store or cannot be written.
    """
    try:
        # SQLite takes a file of one byte for an empty one and would write over it.
        if path.is_file() and 0 < path.stat().st_size < SMALLEST_FILE:
            raise ValueError("file is not a database")
        with ExitStack() as stack:
            db = sqlite3.connect(
                path, timeout=PATIENCE_SECONDS, isolation_level=None, check_same_thread=False
            )
            stack.callback(db.close)
            db.row_factory, db.text_factory = sqlite3.Row, _decoded
            _settle(db)
            stack.pop_all()
            return db
    except (OSError, ValueError, sqlite3.Error) as error:
        raise InvalidValueError(
            f"call store {str(path)!r} cannot be used: {error}; allowed: a store of schema"
            f" {SCHEMA}, or a new file in an existing folder that can be written"
        ) from error


def _settle(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA synchronous = NORMAL")
    with db:
        db.execute("BEGIN")
        new = _is_new(db)
    if new:
        _switch_to_wal(db)
    with db:
        # Also shows whether the file can be written, before anything depends on it.
        db.execute("BEGIN IMMEDIATE")
        if _is_new(db):
            for definition in _DEFINITIONS:
                db.execute(definition)


def _is_new(db: sqlite3.Connection) -> bool:
    """Whether the database is empty; anything else must be a store of this schema."""
    application = db.execute("PRAGMA application_id").fetchone()[0]
    schema = db.execute("PRAGMA user_version").fetchone()[0]
    if (application, schema) == (APPLICATION, SCHEMA):
        return False
    if application == APPLICATION:
        raise ValueError(f"its schema is {schema}")
    if schema or application or db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise ValueError("it is another program's database")
    return True


def _switch_to_wal(db: sqlite3.Connection) -> None:
    """Asks for the write-ahead log until nobody is in the way: SQLite itself does not wait here."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > deadline:
                raise
        time.sleep(0.01)
