// The live station is the first choice; when it fails, the archive answers.

interface Reading {
  source: string;
  high_c: number;
}

async function latestReading(station: string): Promise<Reading> {
  try {
    const live = await weather.station({ id: station });
    return { source: station, high_c: live.high_c };
  } catch (error) {
    if (!(error instanceof ToolCallError)) throw error;
    console.warn(`${error.toolName} failed: ${error.message}`);
    const [day] = await sql.query({
      sql: "SELECT date, temp_max_c FROM days ORDER BY date DESC LIMIT 1",
    });
    return { source: `archive of ${day.date}`, high_c: day.temp_max_c };
  }
}

const reading = await latestReading("KSEA");
console.log(`using the ${reading.source}`);

// A mistake in a query comes back as an error too, and its message says what to change.
let rainyDays: number;
try {
  [{ n: rainyDays }] = await sql.query({ sql: "SELECT count(*) AS n FROM weather WHERE rain > 0" });
} catch (error) {
  console.warn(`first try: ${(error as Error).message}`);
  const [table] = await sql.tables({});
  const rain = table.columns.find((name: string) => name.startsWith("precipitation"));
  [{ n: rainyDays }] = await sql.query({
    sql: `SELECT count(*) AS n FROM ${table.name} WHERE ${rain} > 0`,
  });
}

return { reading, rainy_days: rainyDays };
