"""The store of model calls, one SQLite file: what was asked and answered, and what it cost.

It is cache and account in one. A run that goes on after an interruption finds its own answers here,
and a claim keeps processes that share the file from making the same call twice.
"""

from __future__ import annotations

import math
import os
import sqlite3
import statistics
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from pave_policy.llm.database import INSERTION, from_row, open_database, to_row
from pave_policy.llm.exchange import ANSWERED, VALID, Exchange, OperationUse, Spent, request_key
from pave_policy.llm.process import Process
from pave_policy.site import Site
from voville_env.errors import InvalidValueError, LifecycleError, RunAbortedError

__all__ = ["VALID", "CallStore", "Exchange", "OperationUse", "Site", "Spent", "request_key"]

_ANSWERED = "outcome IN ({})".format(", ".join(f"'{outcome}'" for outcome in ANSWERED))
_REUSABLE = f"(outcome = '{VALID}' OR run = :run AND {_ANSWERED})"


class CallStore:
    """The exchanges of one run in a file that other runs and processes may share.

    Attributes:
        run: The run whose exchanges are recorded and counted.
    """

    def __init__(self, path: Path | str, run: str, *, lease: float = 600.0) -> None:
        """Opens a store, and creates it where there is none.

        Args:
            path: The file; ``":memory:"`` for a store that nobody shares.
            run: The run to record for.
            lease: Seconds after which a claim made on another machine is void. A claim made on
                this one is void once its process has ended, and never before.

        Raises:
            InvalidValueError: The file is not a call store or cannot be written.
        """
        self.run = run
        self._path = str(path)
        self._lease = lease
        self._process = Process.current()
        self._holder = uuid.uuid4().hex
        self._lock = threading.RLock()
        self._closed = False
        self._db = open_database(Path(path))

    def __enter__(self) -> CallStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Gives up the claims still held and closes the file; a second time, does nothing."""
        with self._lock:
            if self._closed:
                return
            try:
                with self._writing() as db:
                    db.execute("DELETE FROM claims WHERE holder = ?", (self._holder,))
            finally:
                self._closed = True
                self._db.close()

    def find(self, key: str, sample: str) -> Exchange | None:
        """Looks for an answer to reuse.

        Args:
            key: The request's key.
            sample: The repetition.

        Returns:
            The earliest exchange of this run in which the model answered, whatever it said; else
            the earliest valid one of another run.
        """
        with self._reading() as db:
            return self._first(db, _REUSABLE, key, sample)

    def find_any(self, key: str, sample: str) -> Exchange | None:
        """Looks for an answer to replay.

        Args:
            key: The request's key.
            sample: The repetition.

        Returns:
            What `find` returns; else the earliest exchange of another run in which the model
            answered, whatever it said.
        """
        with self._reading() as db:
            return self._first(db, _ANSWERED, key, sample)

    def claim(self, key: str, sample: str) -> bool:
        """Takes the right to make a call, until it is recorded or released.

        Args:
            key: The request's key.
            sample: The repetition.

        Returns:
            Whether it is the caller's now. It is not while anybody else holds it, nor once `find`
            has an answer: who was refused looks again.
        """
        with self._writing() as db:
            if self._first(db, _REUSABLE, key, sample) is not None:
                return False
            row = db.execute(
                "SELECT host, pid, started, expires FROM claims WHERE key = ? AND sample = ?",
                (key, sample),
            ).fetchone()
            if row is not None and self._binds(Process(*row[:3]), row["expires"]):
                return False
            mine, expires = self._process, time.time() + self._lease
            db.execute(
                "INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?, ?, ?)",
                (key, sample, self._holder, mine.host, mine.pid, mine.started, expires),
            )
            return True

    def release(self, key: str, sample: str) -> None:
        """Gives up a claim without a call; one that this store does not hold stays.

        Args:
            key: The request's key.
            sample: The repetition.
        """
        with self._writing() as db:
            self._drop(db, key, sample)

    def record(self, exchange: Exchange) -> None:
        """Writes an exchange and gives up its claim, both or neither.

        Args:
            exchange: What to write, for this store's run.

        Raises:
            InvalidValueError: Its outcome is unknown, its request is not plain JSON, or a value is
                missing.
        """
        row = to_row(exchange, self.run)
        with self._writing() as db:
            db.execute(INSERTION, row)
            self._drop(db, exchange.key, exchange.sample)

    def spent(self) -> Spent:
        """Adds up this run's exchanges.

        Returns:
            The sums.
        """
        with self._reading() as db:
            row = db.execute(
                "SELECT count(*), total(attempts), total(prompt_tokens), total(completion_tokens),"
                " total(cost) FROM exchanges WHERE run = ?",
                (self.run,),
            ).fetchone()
        exchanges, calls, prompt, completion, cost = row
        return Spent(exchanges, int(calls), int(prompt), int(completion), cost)

    def by_operation(self) -> list[OperationUse]:
        """Adds up this run's exchanges, each operation for itself.

        Returns:
            The operations by name.
        """
        groups: dict[str, list[sqlite3.Row]] = {}
        with self._reading() as db:
            for row in db.execute(
                "SELECT operation, outcome, attempts, prompt_tokens, completion_tokens, cost,"
                " latency FROM exchanges WHERE run = ? ORDER BY operation, id",
                (self.run,),
            ):
                groups.setdefault(row["operation"], []).append(row)
        return [_use(operation, rows) for operation, rows in groups.items()]

    def exchanges(self, keys: Sequence[str]) -> list[Exchange]:
        """Reads the exchanges of some requests, of any run.

        Args:
            keys: The requests' keys.

        Returns:
            For each key in turn, this run's exchanges and then the others', earliest first.
        """
        with self._reading() as db:
            return [
                from_row(row)
                for key in dict.fromkeys(keys)
                for row in db.execute(
                    "SELECT * FROM exchanges WHERE key = ? ORDER BY run = ? DESC, id",
                    (key, self.run),
                )
            ]

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._closed:
                raise LifecycleError(f"call store {self._path!r} is closed")
            if os.getpid() != self._process.pid:
                raise LifecycleError(
                    f"call store {self._path!r} was opened in another process: open it in each"
                )
            try:
                yield self._db
            except sqlite3.IntegrityError as error:
                raise InvalidValueError(f"exchange cannot be recorded: {error}") from error
            except sqlite3.Error as error:
                raise RunAbortedError(f"call store {self._path!r} failed: {error}") from error

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._reading() as db, db:
            db.execute("BEGIN IMMEDIATE")
            yield db

    def _first(
        self, db: sqlite3.Connection, condition: str, key: str, sample: str
    ) -> Exchange | None:
        row = db.execute(
            f"SELECT * FROM exchanges WHERE key = :key AND sample = :sample AND {condition}"
            f" ORDER BY run = :run DESC, (run = :run OR outcome = '{VALID}') DESC, id LIMIT 1",
            {"key": key, "sample": sample, "run": self.run},
        ).fetchone()
        return None if row is None else from_row(row)

    def _drop(self, db: sqlite3.Connection, key: str, sample: str) -> None:
        db.execute(
            "DELETE FROM claims WHERE key = ? AND sample = ? AND holder = ?",
            (key, sample, self._holder),
        )

    def _binds(self, owner: Process, expires: float) -> bool:
        if owner.host == self._process.host and os.name == "posix":
            return owner.is_running
        return time.time() < expires


def _use(operation: str, rows: Sequence[sqlite3.Row]) -> OperationUse:
    latencies = sorted(row["latency"] for row in rows if row["attempts"])
    spent = Spent(
        exchanges=len(rows),
        calls=sum(row["attempts"] for row in rows),
        prompt_tokens=sum(row["prompt_tokens"] or 0 for row in rows),
        completion_tokens=sum(row["completion_tokens"] or 0 for row in rows),
        cost=sum(row["cost"] for row in rows),
    )
    return OperationUse(
        operation=operation,
        spent=spent,
        outcomes=Counter(row["outcome"] for row in rows),
        latency_mean=statistics.fmean(latencies) if latencies else None,
        latency_median=statistics.median(latencies) if latencies else None,
        latency_p95=latencies[math.ceil(0.95 * len(latencies)) - 1] if latencies else None,
    )
