"""Functions for the example programs: the daily weather of Seattle, 2012 to 2015, in SQLite.

    code-runtime run examples/analysis.ts --bindings examples/weather.py --calls
    code-runtime run examples/rain.py --bindings examples/weather.py --calls

What a program sees:

    sql.tables({}): Promise<{ name: string; rows: number; columns: string[] }[]>
    sql.query({ sql: string, params?: (string | number | null)[] }): Promise<object[]>
    weather.forecast({ date: "MM-DD" }): Promise<{ temp_max_c: number; rain_chance: number }>
    weather.station({ id: string }): Promise<{ high_c: number }>

`weather.forecast` is slow and `weather.station` always fails. A failed call of `weather` rejects
with a `ToolCallError`, whose `toolName` names the function. The data is the file
`seattle-weather.csv` of the package vega-datasets.
"""

from __future__ import annotations

import csv
import importlib.util
import re
import sqlite3
import tempfile
import time
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from code_runtime import CodeBindingErrorClass, CodeBindingNamespace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MAX_ROWS = 1_000
MAX_QUERY_S = 2.0
MAX_CELL_BYTES = 1_000_000
FORECAST_S = 0.4
READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}
READING.add(sqlite3.SQLITE_RECURSIVE)


@asynccontextmanager
async def bindings() -> AsyncIterator[list[CodeBindingNamespace]]:
    """Offer the functions as long as the database exists."""
    with tempfile.TemporaryDirectory(prefix="weather-") as folder:
        path = Path(folder) / "weather.db"
        await anyio.to_thread.run_sync(create_database, path)
        yield weather_bindings(path)


def weather_bindings(path: Path) -> list[CodeBindingNamespace]:
    """Offer the functions over a database that exists."""

    async def query(args: object) -> object:
        statement, params = _query_arguments(args)
        # A thread each: queries of one Promise.all run side by side, and the loop stays free.
        return await anyio.to_thread.run_sync(run_query, path, statement, params)

    async def tables(args: object) -> object:
        return await anyio.to_thread.run_sync(list_tables, path)

    async def forecast(args: object) -> object:
        date = args.get("date") if isinstance(args, dict) else None
        if not isinstance(date, str) or not re.fullmatch(r"\d\d-\d\d", date):
            raise ValueError(f"Cannot forecast: date is {date!r}, expected a string like '07-04'")
        await anyio.sleep(FORECAST_S)
        return await anyio.to_thread.run_sync(typical_day, path, date)

    async def station(args: object) -> object:
        seen = args.get("id") if isinstance(args, dict) else None
        raise ConnectionError(
            f"Cannot read station {seen!r}: it has not answered since 2015-12-31, "
            "expected a query of the archive (sql.query)"
        )

    return [
        CodeBindingNamespace("sql", {"query": query, "tables": tables}),
        CodeBindingNamespace(
            "weather",
            {"forecast": forecast, "station": station},
            CodeBindingErrorClass("ToolCallError", "toolName"),
        ),
    ]


def create_database(path: Path) -> None:
    """Load the file of the package into the table `days`."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE days (date TEXT PRIMARY KEY, precipitation_mm REAL, temp_max_c REAL, "
            "temp_min_c REAL, wind_m_s REAL, weather TEXT)"
        )
        connection.executemany("INSERT INTO days VALUES (?, ?, ?, ?, ?, ?)", _rows())


def _rows() -> list[tuple[str, ...]]:
    # The file only: importing the package imports pandas.
    spec = importlib.util.find_spec("vega_datasets")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            "Cannot load the weather of Seattle: vega-datasets is not installed, "
            "expected `pip install vega-datasets`"
        )
    source = Path(spec.origin).parent / "_data" / "seattle-weather.csv"
    with source.open(newline="") as lines:
        records = list(csv.reader(lines))[1:]
    return [(record[0].replace("/", "-"), *record[1:]) for record in records]


def run_query(path: Path, statement: str, params: list[object]) -> list[dict[str, object]]:
    """Run one statement that reads, and return its rows as objects.

    Raises:
        ValueError: the statement fails, writes, gives too many rows or takes too long.
    """
    with closing(_connect(path)) as connection:
        try:
            cursor = connection.execute(statement, params)
            names = [column[0] for column in cursor.description or ()]
            rows = cursor.fetchmany(MAX_ROWS + 1)
        except (sqlite3.Error, sqlite3.Warning, OverflowError) as error:
            raise ValueError(f"Cannot run query: {_explain(error)}") from error
    if len(rows) > MAX_ROWS:
        raise ValueError(
            f"Cannot run query: it gives more than {MAX_ROWS} rows, "
            "expected fewer (aggregate in SQL, or add LIMIT and OFFSET)"
        )
    if len(set(names)) < len(names):
        raise ValueError(
            f"Cannot run query: its columns are {', '.join(names)}, expected a name of its own "
            "for each (AS)"
        )
    return [dict(zip(names, row, strict=True)) for row in rows]


def _explain(error: Exception) -> str:
    text = str(error).rstrip(".")
    if any(word in text for word in ("not authorized", "prohibited", "authorization denied")):
        return f"{text}, expected a SELECT: the database is read-only"
    if text == "interrupted":
        return f"no result within {MAX_QUERY_S} s, expected a statement that ends"
    return f"{text}, expected SQLite over the tables that sql.tables({{}}) lists"


def _connect(path: Path) -> sqlite3.Connection:
    """Open the database so that no statement can change it or reach another file."""
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    connection.execute("PRAGMA query_only = ON")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_CELL_BYTES)
    deadline = time.monotonic() + MAX_QUERY_S
    connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
    connection.set_authorizer(
        lambda action, *_: sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY
    )
    return connection


def list_tables(path: Path) -> list[dict[str, object]]:
    """List the tables with their columns and how many rows they have."""
    described = "SELECT name FROM pragma_table_info(?)"
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        return [
            {
                "name": name,
                "rows": connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0],
                "columns": [column for (column,) in connection.execute(described, (name,))],
            }
            for (name,) in found
        ]


def typical_day(path: Path, date: str) -> dict[str, object]:
    """Return what a day of the year was like on average."""
    statement = (
        "SELECT round(avg(temp_max_c), 1) AS temp_max_c, "
        "round(avg(precipitation_mm > 0), 2) AS rain_chance FROM days WHERE substr(date, 6) = ?"
    )
    row = run_query(path, statement, [date])[0]
    if row["temp_max_c"] is None:
        raise ValueError(f"Cannot forecast: {date!r} is no day of the year, expected MM-DD")
    return row


def _query_arguments(args: object) -> tuple[str, list[object]]:
    expected = "{ sql: string, params?: (string | number | null)[] }"
    if not isinstance(args, dict) or not isinstance(args.get("sql"), str):
        raise TypeError(f"Cannot run query: the argument has no string `sql`, expected {expected}")
    params = args.get("params", [])
    if not isinstance(params, list) or any(isinstance(item, (list, dict)) for item in params):
        raise TypeError(f"Cannot run query: params is {params!r}, expected {expected}")
    return args["sql"], params
