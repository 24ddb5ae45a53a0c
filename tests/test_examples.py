"""The examples: their functions, and the programs through the command line."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
COMMAND = Path(sys.executable).parent / "code-runtime"


def load_weather() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example_weather", EXAMPLES / "weather.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


weather = load_weather()


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weather") / "weather.db"
    weather.create_database(path)
    return path


def test_database_holds_every_day_of_four_years(database: Path) -> None:
    assert weather.list_tables(database) == [
        {
            "name": "days",
            "rows": 1_461,
            "columns": [
                "date",
                "precipitation_mm",
                "temp_max_c",
                "temp_min_c",
                "wind_m_s",
                "weather",
            ],
        }
    ]


def test_query_gives_typed_rows(database: Path) -> None:
    rows = weather.run_query(database, "SELECT * FROM days WHERE date = ?", ["2012-01-04"])
    assert rows == [
        {
            "date": "2012-01-04",
            "precipitation_mm": 20.3,
            "temp_max_c": 12.2,
            "temp_min_c": 5.6,
            "wind_m_s": 4.7,
            "weather": "rain",
        }
    ]


READ_ONLY = "expected a SELECT: the database is read-only"


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("DELETE FROM days", f"not authorized, {READ_ONLY}"),
        ("DROP TABLE days", f"not authorized, {READ_ONLY}"),
        ("ATTACH '/etc/passwd' AS other", f"not authorized, {READ_ONLY}"),
        ("PRAGMA query_only = OFF", f"not authorized, {READ_ONLY}"),
        ("VACUUM INTO '/tmp/copy.db'", f"authorization denied, {READ_ONLY}"),
        (
            "SELECT rain FROM days",
            "no such column: rain, expected SQLite over the tables that sql.tables({}) lists",
        ),
        (
            "SELECT * FROM days",
            "it gives more than 1000 rows, "
            "expected fewer (aggregate in SQL, or add LIMIT and OFFSET)",
        ),
        (
            "SELECT 1 AS a, 2 AS a",
            "its columns are a, a, expected a name of its own for each (AS)",
        ),
        (
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT count(*) FROM n",
            "no result within 2.0 s, expected a statement that ends",
        ),
    ],
)
def test_query_refuses_with_what_to_change(database: Path, statement: str, reason: str) -> None:
    with pytest.raises(ValueError, match="Cannot run query") as caught:
        weather.run_query(database, statement, [])
    assert str(caught.value) == f"Cannot run query: {reason}"


def run_example(name: str) -> dict[str, object]:
    done = subprocess.run(
        [
            COMMAND,
            *("run", EXAMPLES / name, "--bindings", EXAMPLES / "weather.py", "--json"),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    document: dict[str, object] = json.loads(done.stdout)
    return document


def outcomes(document: dict[str, object]) -> list[tuple[str, str]]:
    calls = document["calls"]
    assert isinstance(calls, list)
    return [(f"{call['namespace']}.{call['member']}", call["outcome"]) for call in calls]


def test_analysis_answers_from_the_data(database: Path) -> None:
    document = run_example("analysis.ts")
    value = document["value"]
    assert isinstance(value, dict)
    (extremes,) = weather.run_query(
        database,
        "SELECT max(temp_max_c) AS hottest_c, min(temp_min_c) AS coldest_c, "
        "max(precipitation_mm) AS wettest_mm FROM days",
        [],
    )
    assert value["extremes"] == extremes
    assert value["forecast"] == weather.typical_day(database, "07-15")
    assert value["best"] == "July"
    assert [row["month"] for row in value["ranking"]][:2] == ["July", "September"]
    assert list(value["years"]) == ["2012", "2013", "2014", "2015"]
    logs = document["logs"]
    assert isinstance(logs, list)
    assert len(logs) == 7
    assert outcomes(document) == [
        ("sql.tables", "ok"),
        *[("sql.query", "ok")] * 7,
        ("weather.forecast", "ok"),
    ]


def test_recovery_goes_on_after_failed_calls() -> None:
    document = run_example("recovery.ts")
    assert document["logs"] == [
        "station failed: Cannot read station 'KSEA': it has not answered since 2015-12-31, "
        "expected a query of the archive (sql.query)",
        "using the archive of 2015-12-31",
        "first try: Cannot run query: no such table: weather, "
        "expected SQLite over the tables that sql.tables({}) lists",
    ]
    assert document["value"] == {
        "reading": {"source": "archive of 2015-12-31", "high_c": 5.6},
        "rainy_days": 623,
    }
    assert outcomes(document) == [
        ("weather.station", "error"),
        ("sql.query", "ok"),
        ("sql.query", "error"),
        ("sql.tables", "ok"),
        ("sql.query", "ok"),
    ]


def test_rain_answers_from_the_data(database: Path) -> None:
    document = run_example("rain.py")
    value = document["value"]
    assert isinstance(value, dict)
    # The same by a query of its own: a spell is a run of days whose number minus rank is constant.
    spells = weather.run_query(
        database,
        """
        WITH ranked AS (
            SELECT date, precipitation_mm > 0 AS wet,
                   row_number() OVER (ORDER BY date)
                   - row_number() OVER (PARTITION BY precipitation_mm > 0 ORDER BY date) AS spell
            FROM days
        )
        SELECT wet, min(date) AS start, count(*) AS length FROM ranked GROUP BY wet, spell
        ORDER BY length DESC, start
        """,
        [],
    )
    for name, is_wet in (("wet", 1), ("dry", 0)):
        of_kind = [row for row in spells if row["wet"] == is_wet]
        assert (value[name]["count"], value[name]["longest_days"], value[name]["from"]) == (
            len(of_kind),
            of_kind[0]["length"],
            of_kind[0]["start"],
        )
    assert (value["tomorrow_as_today"], value["always_the_same"]) == (0.721, 0.574)
    assert value["forecast"] == weather.typical_day(database, value["wet"]["from"][5:])
    logs = document["logs"]
    assert isinstance(logs, list)
    assert logs[0].startswith("days: 1461 days, columns date, ")
    assert sorted(logs[1:5]) == [
        "2012: 366 days, 177 with rain",
        "2013: 365 days, 152 with rain",
        "2014: 365 days, 150 with rain",
        "2015: 365 days, 144 with rain",
    ]
    assert logs[5:] == [
        "longest wet spell: 19 days from 2012-12-09",
        "longest dry spell: 48 days from 2012-07-23",
        "tomorrow as today: right on 72.1% of days; always the same answer: 57.4%",
        "station failed, using the typical day instead",
    ]
    assert outcomes(document) == [
        ("sql.tables", "ok"),
        *[("sql.query", "ok")] * 4,
        ("weather.station", "error"),
        ("weather.forecast", "ok"),
    ]


def test_embed_prints_logs_and_value() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "embed.py"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=50,
        check=False,
    )
    assert done.stdout == "['prices [ 1.2, 2.5 ]'] 8.6 None\n", done.stderr
    assert done.stderr == ""
