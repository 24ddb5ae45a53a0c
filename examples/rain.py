# Question: does rain around Seattle come in spells, and how good is a guess "tomorrow as today"?

import asyncio
from itertools import groupby, pairwise
from statistics import mean, median

(table,) = await sql.tables({})
print(f"{table['name']}: {table['rows']} days, columns {', '.join(table['columns'])}")


async def days_of(year):
    rows = await sql.query({
        "sql": """SELECT date, precipitation_mm AS mm FROM days
                  WHERE substr(date, 1, 4) = ? ORDER BY date""",
        "params": [str(year)],
    })
    print(f"{year}: {len(rows)} days, {sum(row['mm'] > 0 for row in rows)} with rain")
    return rows


# Independent questions go out together; each answers with less than the limit of 1,000 rows.
years = await asyncio.gather(*map(days_of, range(2012, 2016)))
days = [row for year in years for row in year]

# Spells: days in a row that are all wet or all dry.
spells = [(wet, list(run)) for wet, run in groupby(days, lambda row: row["mm"] > 0)]


def describe(wet):
    lengths = [len(run) for is_wet, run in spells if is_wet == wet]
    longest = max((run for is_wet, run in spells if is_wet == wet), key=len)
    return {
        "count": len(lengths),
        "median_days": median(lengths),
        "longest_days": len(longest),
        "from": longest[0]["date"],
    }


wet, dry = describe(True), describe(False)
print(f"longest wet spell: {wet['longest_days']} days from {wet['from']}")
print(f"longest dry spell: {dry['longest_days']} days from {dry['from']}")

# How often was the next day of the same kind?
rain = [row["mm"] > 0 for row in days]
same = mean(a == b for a, b in pairwise(rain))
guess = max(mean(rain), 1 - mean(rain))
print(f"tomorrow as today: right on {same:.1%} of days; always the same answer: {guess:.1%}")

# A tool that fails does not end the program.
try:
    await weather.station({"id": "KSEA"})
except ToolCallError as error:
    print(f"{error.toolName} failed, using the typical day instead")
    forecast = await weather.forecast({"date": wet["from"][5:]})

return {
    "wet": wet,
    "dry": dry,
    "tomorrow_as_today": round(same, 3),
    "always_the_same": round(guess, 3),
    "forecast": forecast,
}
