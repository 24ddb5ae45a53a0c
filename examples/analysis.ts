// Question: which month is best for a hike around Seattle, and did the four years differ?

interface Month {
  month: number;
  days: number;
  dry: number;
  warm: number;
  wind: number;
}

const [table] = await sql.tables({});
console.log(`${table.name}: ${table.rows} days, columns ${table.columns.join(", ")}`);

// Independent questions go out together.
const [months, kinds, [extremes]] = await Promise.all([
  sql.query({
    sql: `SELECT CAST(substr(date, 6, 2) AS INTEGER) AS month, count(*) AS days,
                 avg(precipitation_mm = 0) AS dry, avg(temp_max_c) AS warm, avg(wind_m_s) AS wind
          FROM days GROUP BY month ORDER BY month`,
  }) as Promise<Month[]>,
  sql.query({ sql: "SELECT weather, count(*) AS days FROM days GROUP BY weather ORDER BY days DESC" }),
  sql.query({
    sql: `SELECT max(temp_max_c) AS hottest_c, min(temp_min_c) AS coldest_c,
                 max(precipitation_mm) AS wettest_mm FROM days`,
  }),
]);
console.log("kinds of weather:", kinds.map((k) => `${k.weather} ${k.days}`).join(", "));

// One question per year, each with a parameter.
const years: Record<string, { mean_c: number; rain_mm: number }> = {};
for (const year of ["2012", "2013", "2014", "2015"]) {
  const [row] = await sql.query({
    sql: `SELECT round(avg((temp_max_c + temp_min_c) / 2), 2) AS mean_c,
                 round(sum(precipitation_mm), 1) AS rain_mm
          FROM days WHERE substr(date, 1, 4) = ?`,
    params: [year],
  });
  years[year] = row;
  console.log(`${year}: ${row.mean_c} °C on average, ${row.rain_mm} mm of rain`);
}

// A score that SQL does not have: dry days count most, then warmth near 22 °C, then little wind.
function score(m: Month): number {
  return 60 * m.dry + 30 * Math.max(0, 1 - Math.abs(m.warm - 22) / 15) + 10 * (1 - m.wind / 6);
}
const ranking = months
  .map((m) => ({
    month: new Date(2000, m.month - 1).toLocaleString("en", { month: "long" }),
    dry_days: `${Math.round(100 * m.dry)} %`,
    high_c: Number(m.warm.toFixed(1)),
    score: Number(score(m).toFixed(1)),
  }))
  .sort((a, b) => b.score - a.score);

const best = ranking[0];
console.log(`best month: ${best.month}; asking for a forecast of its middle`);
const number = String(new Date(`${best.month} 1, 2000`).getMonth() + 1).padStart(2, "0");
const forecast = await weather.forecast({ date: `${number}-15` });

return { best: best.month, forecast, ranking: ranking.slice(0, 5), years, extremes };
