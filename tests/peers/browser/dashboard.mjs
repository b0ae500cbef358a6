// Drives the dashboard of a real demo in headless Chromium.
//
//   HEARTBEAT_TEST_BINARY   the program under test
//   HEARTBEAT_TEST_CHROMIUM, HEARTBEAT_TEST_NODE_MODULES   the browser and the two npm packages
//   HEARTBEAT_TEST_LARGE_STATE   a state with 5,000 items and 500 findings
//   HEARTBEAT_TEST_ROUTES   the router's changing routes, as JSON
//   HEARTBEAT_TEST_SCREENSHOTS   a folder for screenshots; none are taken without it
//
// Prints one line per check and leaves with 1 at the first that fails.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const modules = createRequire(join(process.env.HEARTBEAT_TEST_NODE_MODULES, "x.js"));
const { chromium } = modules("playwright-core");
const axe = readFileSync(modules.resolve("axe-core/axe.min.js"), "utf8");
const binary = process.env.HEARTBEAT_TEST_BINARY;
const screenshots = process.env.HEARTBEAT_TEST_SCREENSHOTS;
const folder = mkdtempSync(join(tmpdir(), "heartbeat-browser-"));

const freePort = () => new Promise((resolve) => {
  const server = createServer().listen(0, "127.0.0.1", () => {
    const { port } = server.address();
    server.close(() => resolve(port));
  });
});

/** The address that signs a browser in, as the demo prints it. */
let signInAddress = null;

/** A browser that has signed in, as a person does it: by the printed address. */
async function signedIn(options, by = signInAddress) {
  // Colours that are still on their way are nobody's colours.
  const context = await browser.newContext({ reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  await page.goto(by);
  assert.equal(page.url(), `${new URL(by).origin}/`, "the address without the token");
  await page.close();
  return context;
}

/** Starts the demo and waits until it says where its dashboard is. */
function start(port, state = join(folder, "state"), more = []) {
  const set = (key, value) => ["--set", `${key}=${value}`];
  // A second to begin with, so that a session is seen starting before it is seen at work.
  const agent = JSON.stringify(["/bin/sh", "-c", 'sleep 1; exec "$0" simulate agent --pace 6000 "$@"', binary]);
  const child = spawn(binary, ["--demo", "--state-dir", state,
    ...set("http.listen", `"127.0.0.1:${port}"`), ...set("schedule.cron", '"0 0 1 1 *"'),
    ...set("agent.command", agent), ...set("limits.max_deep_per_run", "9"), ...set("timeouts.liveness", '"500ms"'),
    ...more.flatMap(([key, value]) => set(key, value))],
  { stdio: ["ignore", "ignore", "pipe"] });
  return new Promise((resolve, reject) => {
    let said = "";
    child.once("exit", (code) => reject(new Error(`heartbeat left with ${code}: ${said}`)));
    child.stderr.on("data", (chunk) => {
      said += chunk;
      const printed = said.match(/dashboard  (http:\S+\?token=[0-9a-f]{64})/)?.[1];
      if (!printed || child.isUp) return;
      child.isUp = true; // What it prints later is not looked at: the token may have been replaced.
      child.printed = printed;
      resolve(child);
    });
  });
}

const stop = (child) => new Promise((resolve) => {
  child.removeAllListeners("exit");
  child.once("exit", resolve);
  child.kill("SIGTERM");
});

function done(what) {
  console.log(`ok  ${what}`);
}

async function accessible(page, where) {
  // The test, not the page, brings the checker: it is evaluated from outside the page's policy.
  const violations = await page.evaluate(async (source) => {
    if (!window.axe) (0, eval)(source);
    const found = await window.axe.run(document, { resultTypes: ["violations"] });
    return found.violations.map((one) => `${one.id}: ${one.help} — ${one.nodes.map((node) => node.target.join(" ")).join("; ")}`);
  }, axe);
  assert.deepEqual(violations, [], where);
  done(`axe-core finds nothing: ${where}`);
}

/** In light and dark, on a desk and on a phone: the page fits, axe-core finds nothing, and a picture is taken. */
async function everywhere(page, where) {
  for (const [width, height] of [[390, 844], [1360, 900]]) {
    await page.setViewportSize({ width, height });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `${where}: ${wide} px too wide for ${width}`);
    const cut = await page.evaluate(() => [...document.querySelectorAll("#page .scroll")].filter((table) => table.scrollWidth > table.clientWidth).map((table) => table.getAttribute("aria-label")));
    assert.ok(width < 1000 || !cut.length, `${where}: tables that do not fit: ${cut}`);
    for (const colorScheme of ["dark", "light"]) {
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await accessible(page, `${where}, ${colorScheme}, ${width} px`);
      if (screenshots) await page.screenshot({ path: join(screenshots, `${where.replace(/\W+/g, "-")}-${colorScheme}-${width}.png`), fullPage: true });
    }
  }
}

const port = await freePort();
const address = `http://127.0.0.1:${port}`;
let heartbeat = await start(port);
signInAddress = heartbeat.printed;
const browser = await chromium.launch({ executablePath: process.env.HEARTBEAT_TEST_CHROMIUM, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
let failed = null;
try {
  await drive();
} catch (error) {
  failed = error;
} finally {
  await browser.close();
  await stop(heartbeat);
  rmSync(folder, { recursive: true, force: true });
}
if (failed) {
  console.error(failed);
  process.exit(1);
}

async function drive() {
  await signIn();
  // The page's own policy forbids eval; only the checker needs it, so only these contexts lift it.
  const context = await signedIn({ viewport: { width: 1360, height: 900 }, colorScheme: "light", bypassCSP: true });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const problems = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => {
    // A lost connection is reported by the browser itself, and is part of the test.
    if (message.type() === "error" && !/ERR_|Failed to load resource/.test(message.text())) problems.push(message.text());
  });

  await firstPaint();
  await page.goto(address);
  await page.waitForSelector("body[data-phase=ready][data-link=live]");
  assert.match(await page.textContent("#findings-empty"), /No findings yet/);
  assert.match(await page.textContent("#run-note"), /No run yet/);
  await everywhere(page, "empty");

  await page.evaluate(() => {
    window.delays = [];
    new EventSource("/events").addEventListener("happened", (event) => window.delays.push(Date.now() - Date.parse(JSON.parse(event.data).at)));
  });
  await page.click("#run-now");
  await page.waitForSelector(".slot.live");
  done("a run asked for from the page starts a session");
  const verdicts = new Set();
  for (const until = Date.now() + 60_000; Date.now() < until && verdicts.size < 2;) {
    for (const text of await page.locator(".slot.live .verdict").allTextContents()) verdicts.add(text);
    await page.waitForTimeout(50);
  }
  assert.ok(verdicts.size > 1, `verdicts seen: ${[...verdicts]}`);
  done(`verdicts change: ${[...verdicts].join(", ")}`);
  await page.waitForFunction(() => document.querySelectorAll(".slot.live").length === 3);
  await stopOne(page);
  await everywhere(page, "running");
  await liveSession(context);

  await page.waitForFunction(() => document.querySelectorAll("#findings li").length >= 2);
  done("findings appear");
  const { delay, trip, count } = await page.evaluate(async () => {
    const middle = (times) => times.sort((a, b) => a - b)[times.length >> 1];
    const trips = [];
    for (let round = 0; round < 20; round += 1) {
      const begun = performance.now();
      await (await fetch("/livez")).text();
      trips.push(performance.now() - begun);
    }
    return { delay: middle(window.delays), trip: middle(trips), count: window.delays.length };
  });
  done(`${count} events reached the page, half of them within ${delay} ms; a request takes ${trip.toFixed(1)} ms`);
  const worth = await page.evaluate(() => fetch("/api/findings").then((answer) => answer.json()));
  assert.deepEqual(worth.map((row) => row.worth), worth.map((row) => row.worth).sort((a, b) => b - a), "the most worthwhile first");
  await page.focus("#findings li a");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#page .found");
  assert.match(page.url(), /\/findings\/[0-9a-f-]{36}$/);
  assert.match(await page.title(), /^#\d+ .* · Parcel · DEMO · heartbeat$/);
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "H2", "the focus is at the beginning of the page");
  assert.equal(await page.locator('#page a[href^="http"]').count(), 0, "the demo's tracker has no pages, a browser opens no local files");
  const parts = await page.evaluate(() => fetch(`/api${location.pathname}`).then((answer) => answer.json()).then((row) => row.parts.filter((part) => part.title && part.shape !== "grades").map((part) => part.title)));
  assert.ok(parts.length >= 3 && parts.includes("Where to look"), parts.join());
  await page.click("#page button:text-is('Copy as a task for an agent')");
  const file = await page.getAttribute("#page a[download='task.md']", "href");
  assert.match(await (await page.request.get(`${address}${file}`)).text(), /^# Task: resolve work item #\d+/);
  const named = new URL(page.url()).pathname.split("/").pop();
  const { key } = await (await page.request.get(`${address}/api/findings/${named}`)).json();
  for (const name of [key.split("/").pop(), `%23${key.split("/").pop()}`]) assert.equal((await (await page.request.get(`${address}/api/items/${name}`)).json()).item?.key, key, "an item by its number");
  assert.match((await (await page.request.get(`${address}/api/items/999999`)).json()).error.message, /`heartbeat why 999999` asks the tracker/);
  for (const title of parts) assert.ok(await page.locator(`#page h3:text-is("${title}")`).count(), title);
  await page.click(".opinions button:text-is('useful')");
  await page.waitForFunction(() => document.querySelector(".opinions [aria-pressed=true]")?.textContent === "useful");
  assert.ok((await (await page.request.get(`${address}/api/findings`)).json()).some((row) => row.feedback), "the opinion is stored");
  await everywhere(page, "finding");
  const finding = page.url();
  await page.goBack();
  await page.waitForSelector("#start:not([hidden])");
  await page.goForward();
  await page.waitForSelector("#page:not([hidden]) .found");
  assert.equal(page.url(), finding);
  await page.goBack();
  await page.waitForSelector("#start:not([hidden])");
  assert.equal(page.url(), `${address}/`);
  const [tab] = await Promise.all([context.waitForEvent("page"), page.locator("#findings li a").first().click({ modifiers: ["Control"] })]);
  await tab.waitForSelector("#page .found");
  assert.notEqual(await tab.title(), await page.title(), "two tabs can be told apart");
  await tab.close();
  done("a finding opens by the keyboard under an address of its own, in a new tab too; back and forward work");
  await pages(page);

  await itemList(page);
  await runAndSession(page);
  await pauseAndRequeue(page);
  await truth();
  await states();
  await hostile();
  await odd();
  await report(page);
  await restart(page);
  await large();
  assert.deepEqual(problems, []);
  done("no error on the page");
}

/** Without sign-in there is a page that says what to do; the private file of `heartbeat dashboard` signs in. */
async function signIn() {
  const context = await browser.newContext({ viewport: { width: 800, height: 600 } });
  const page = await context.newPage();
  const problems = [];
  page.on("console", (message) => { if (/policy/i.test(message.text())) problems.push(message.text()); });
  const refused = await page.goto(address);
  assert.equal(refused.status(), 401);
  assert.match(await page.textContent("main"), /heartbeat dashboard/);
  assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector("main")).maxWidth), "544px", "its style is in force");
  assert.deepEqual(problems, []);
  const lifted = await (await browser.newContext({ bypassCSP: true })).newPage();
  await lifted.goto(address);
  await everywhere(lifted, "sign in");
  await lifted.context().close();
  done("without sign-in a page says what to do");
  const file = join(folder, "open.html");
  writeFileSync(file, `<!doctype html><meta http-equiv="refresh" content="0;url=${signInAddress}">`);
  await page.goto(`file://${file}`);
  await page.waitForSelector("body[data-phase=ready][data-link=live]");
  assert.equal(page.url(), `${address}/`);
  const [cookie] = await context.cookies();
  assert.ok(cookie.httpOnly && cookie.sameSite === "Strict" && /^heartbeat-/.test(cookie.name), JSON.stringify(cookie));
  assert.ok(!signInAddress.includes(cookie.value), "the cookie is not the token");
  assert.equal(await page.evaluate(() => document.cookie), "");
  // A link on another site comes without the cookie, and is led on.
  writeFileSync(file, `<!doctype html><a href="${address}/?q=cart">open</a>`);
  await page.goto(`file://${file}`);
  await page.click("a");
  await page.waitForSelector("body[data-phase=ready]");
  done("the printed address signs in, from a file and from a link on another site");
  const rotated = spawnSync(binary, ["dashboard", "--rotate", "--state-dir", join(folder, "state")], { encoding: "utf8", cwd: folder });
  assert.equal(rotated.status, 0, rotated.stderr);
  signInAddress = rotated.stdout.trim();
  await page.waitForSelector("body[data-link=lost]");
  await page.waitForFunction(() => /heartbeat dashboard/.test(document.querySelector("#banner").textContent));
  done("rotating the token signs the browser out, and the page says what to do");
  await context.close();
}

async function firstPaint() {
  const context = await signedIn({ viewport: { width: 1360, height: 900 } });
  const page = await context.newPage();
  let bytes = 0;
  const client = await context.newCDPSession(page);
  await client.send("Network.enable");
  client.on("Network.loadingFinished", (data) => { bytes += data.encodedDataLength; });
  await page.addInitScript(() => {
    window.shift = 0;
    new PerformanceObserver((list) => { for (const entry of list.getEntries()) window.shift += entry.value; }).observe({ type: "layout-shift", buffered: true });
  });
  await page.goto(address);
  await page.waitForSelector("body[data-phase=ready][data-link=live]");
  await page.waitForTimeout(500);
  const { shift, paint } = await page.evaluate(() => ({ shift: window.shift, paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime }));
  assert.ok(bytes > 30_000 && bytes < 150_000, `${bytes} bytes`);
  assert.ok(shift < 0.001, `layout shift ${shift}`);
  done(`first paint after ${Math.round(paint)} ms, ${bytes} bytes, layout shift ${shift}`);
  await context.close();
}

async function stopOne(page, left = 4) {
  // The newest has the most time left.
  await page.waitForFunction(() => document.querySelectorAll(".slot.live").length > 0);
  const state = await (await page.request.get(`${address}/api/state`)).json();
  const victim = state.sessions[state.sessions.length - 1];
  const slot = page.locator(`.slot[data-key="${victim.session}"]`);
  await slot.locator("button.danger").click();
  assert.equal(await slot.locator("button.danger").textContent(), "Really stop?");
  await slot.locator("button.danger").click();
  await slot.waitFor({ state: "detached" });
  let row = null;
  for (const until = Date.now() + 30_000; Date.now() < until && !row?.outcome;) {
    row = (await (await page.request.get(`${address}/api/sessions`)).json()).find((one) => one.session === victim.session);
    await page.waitForTimeout(50);
  }
  // On a busy machine it may have ended by itself before the second click.
  if (row.outcome.kind === "completed" && left > 0) return stopOne(page, left - 1);
  assert.deepEqual(row.outcome, { kind: "cancelled", why: "operator" });
  assert.equal(row.survivors, 0);
  assert.ok(!existsSync(`/proc/${victim.pid}`), `process ${victim.pid} is still there`);
  const item = page.locator(`#queue [data-key="${victim.item}"]`);
  if (victim.item) {
    await page.waitForFunction((key) => /stopped by operator/.test(document.querySelector(`#queue [data-key="${key}"]`)?.textContent ?? ""), victim.item);
    assert.equal(await item.locator(".tag").textContent(), "parked");
    assert.ok(await item.locator(".again").isVisible(), "and can be put back in line");
  }
  done("the Stop button ends a session; nothing of it survives");
}

/** The page of a live session shows what it reads as it happens, with its Stop. */
async function liveSession(context) {
  const tab = await context.newPage();
  const list = tab.locator("#page .said li");
  for (const until = Date.now() + 60_000; ;) {
    const { sessions } = await (await tab.request.get(`${address}/api/state`)).json();
    const live = sessions.find((one) => one.stage === "deep");
    if (live) {
      await tab.goto(`${address}/sessions/${live.session}`);
      const shown = await list.first().waitFor({ timeout: 8000 }).then(() => true, () => false);
      if (shown && await tab.locator("#page .said h3").textContent() === "What it reads and says") break;
    }
    assert.ok(Date.now() < until, "no live session showed what it reads");
  }
  assert.ok(await tab.locator("#page button.danger").isVisible(), "with its Stop");
  await everywhere(tab, "live session");
  await tab.close();
  done("a live session shows what it reads as it happens");
}

/** Lists of findings, runs and sessions; an address without a page. */
async function pages(page) {
  for (const [name, rows] of [["Findings", "#page ul.list li"], ["Runs", "#page tbody tr"], ["Sessions", "#page tbody tr"]]) {
    await page.click(`#nav a:text-is("${name}")`);
    await page.waitForSelector(`#page:not([hidden]) h2:text-is("${name}")`);
    assert.ok(await page.locator(rows).count() > 0, name);
    assert.match(await page.title(), new RegExp(`^${name} · Parcel`));
    await everywhere(page, name.toLowerCase());
  }
  const [{ risk, person }] = await (await page.request.get(`${address}/api/findings`)).json();
  await page.goto(`${address}/findings?risk=${risk}&person=${encodeURIComponent(person)}`);
  await page.waitForSelector("#page ul.list li");
  const risks = await page.locator("#page ul.list .row .tag:first-of-type").allTextContents();
  assert.ok(risks.length && risks.every((text) => text === `${risk} risk`), risks.join());
  const lost = await page.goto(`${address}/nowhere`);
  assert.equal(lost.status(), 404);
  await page.waitForSelector("#page h2:text-is('Not found')");
  await everywhere(page, "not found");
  await page.goto(`${address}/#item/ado/1`);
  await page.waitForFunction(() => location.pathname === "/items/ado/1");
  await page.click(".brand a");
  await page.waitForSelector("#start:not([hidden])");
  done("findings, runs and sessions have lists; an unknown address is told; old addresses lead on");
}

/** Counts lead to the list, the whole card opens, and closing leads back. */
async function itemList(page) {
  const settled = (await (await page.request.get(`${address}/api/items?state=settled`)).json());
  assert.ok(settled.total > 0 && settled.items.every((item) => item.triage), "triage's reason");
  await page.click('#queue-note a[href="/items?state=settled"]');
  await page.waitForSelector("#page ul.list li");
  assert.equal(await page.locator("#page ul.list li").count(), settled.items.length);
  assert.match(await page.textContent("#page [aria-current]"), new RegExp(`^${settled.total} settled`));
  await everywhere(page, "items");
  const card = await page.locator("#page ul.list li").first().boundingBox();
  await page.mouse.click(card.x + card.width - 20, card.y + card.height - 6);
  await page.waitForSelector("#page .tags");
  await page.goBack();
  await page.waitForFunction(() => location.search === "?state=settled" && document.querySelector("#page ul.list li"));
  await page.goBack();
  await page.waitForSelector("#start:not([hidden])");
  const word = settled.items[0].title.split(" ").sort((a, b) => b.length - a.length)[0];
  await page.fill("#filter", word);
  await page.waitForFunction(() => /settled by triage/.test(document.querySelector("#matches").textContent));
  await page.fill("#filter", "");
  done("counts lead to the list of items, cards open and lead back, the filter finds settled items");
}

/** The run has a page of its own, its sessions too; both open by the keyboard and by their address. */
async function runAndSession(page) {
  await page.waitForFunction(() => !document.querySelector(".slot.live"));
  await page.focus("#run-link");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#page .stages");
  assert.match(page.url(), /\/runs\/[0-9a-f-]{36}$/);
  const stages = await page.locator("#page .stage .is").allTextContents();
  assert.equal(stages.length, 4);
  assert.ok(stages.every((word) => /^(done|failed|skipped)$/.test(word)), stages.join());
  assert.ok(await page.locator("#page ul.list li").count() > 5, "items with their decision");
  const [first, second] = await page.locator("#page ul.list li").evaluateAll((rows) => rows.map((row) => ({ to: row.querySelector("a").pathname, text: row.querySelector("p").textContent })));
  const best = (await (await page.request.get(`${address}/api/findings`)).json())[0];
  assert.equal(first.to, `/findings/${best.session}`, "the most worthwhile finding of the run is first");
  assert.ok([first, second].every(({ text }) => !/^Triage/.test(text)), "the answer, where there is one, and not triage's question");
  const log = await page.locator("#page .lines li").allTextContents();
  assert.ok(log.some((line) => /run +started/.test(line)) && log.every((line) => !/UTC/.test(line)), log[0]);
  await everywhere(page, "run");
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#page a[download]:text-is('HTML')")]);
  assert.match(download.suggestedFilename(), /^heartbeat-\d{8}T\d{6}Z\.html$/);
  assert.match(readFileSync(await download.path(), "utf8"), /<h1/);
  done("a run has a page with stages, items, sessions, cost and log; its report is a file");
  await page.click("#page td a[href^='/sessions/'] >> nth=-1");
  await page.waitForSelector("#page .pairs");
  assert.match(page.url(), /\/sessions\/[0-9a-f-]{36}$/);
  assert.ok(await page.locator("#page .talk li").count() > 0, "what it read and said");
  assert.match(await page.textContent("#page .talk"), /read/);
  assert.ok(await page.locator("#page table tbody tr").count() > 0, "its liveness");
  await everywhere(page, "session");
  await page.goto(`${address}/runs/00000000-0000-0000-0000-000000000000`);
  await page.waitForFunction(() => /Unknown run/.test(document.querySelector("#page").textContent));
  await page.goto(address);
  await page.waitForSelector("#figures tbody");
  assert.match(await page.textContent("#figures tbody"), /\$\d/);
  done("a session has a page with its transcript, its liveness and its cost");
}

/** The schedule is paused and resumed; many items are requeued after a question with their count. */
async function pauseAndRequeue(page) {
  await page.click("#schedule-pause");
  await page.waitForFunction(() => /paused since/.test(document.querySelector("#schedule-state").textContent));
  await everywhere(page, "paused");
  await page.click("#schedule-pause");
  await page.waitForFunction(() => document.querySelector("#schedule-pause").textContent === "Pause schedule");
  await page.goto(`${address}/items?state=settled`);
  await page.waitForSelector("#page .requeue:not([hidden])");
  const count = await page.locator("#page ul.list li").count();
  assert.match(await page.textContent("#page .requeue"), new RegExp(`^Requeue (this item|these ${count} items)$`));
  await page.click("#page .requeue");
  assert.match(await page.textContent("#page .requeue"), new RegExp(`Really requeue ${count} item`));
  await accessible(page, "requeue, asked");
  await page.click("#page .requeue");
  await page.waitForFunction(() => /No item matches/.test(document.querySelector("#page [role=status]").textContent));
  const left = await (await page.request.get(`${address}/api/items?state=settled`)).json();
  assert.equal(left.total, 0, "all of them are queued");
  await page.goto(`${address}/items`);
  await page.waitForSelector("#page ul.list li");
  assert.ok(await page.locator("#page .requeue").isHidden(), "not for all states at once");
  await page.goto(address);
  await page.waitForSelector("body[data-phase=ready][data-link=live]");
  done("the schedule is paused and resumed, and a list of items is requeued as a whole");
}

/** A run that was refused, one that could not read and one without news are shown as what they are. */
async function truth() {
  const report = (state, why = null) => ({ state, why });
  const skipped = report("skipped", "the work items could not be read");
  const refusal = "this is the first scheduled run on this state. Set [schedule] first_run";
  const summary = { fetched: 9, triaged: 4, analysed: 2, settled_by_triage: 2, cost: 0.25 };
  const useful = { run: "earlier", started_at: "2026-01-01T08:00:00Z", summary };
  for (const [name, why, outcome] of [["refused", refusal, "not_now"], ["source-down", "no answer from the tracker", "source_unavailable"]]) {
    const context = await signedIn({ viewport: { width: 1360, height: 900 }, bypassCSP: true });
    const page = await context.newPage();
    await page.route("**/events**", () => {});
    await page.route("**/api/state", async (route) => {
      const state = await (await route.fetch()).json();
      const at = new Date().toISOString();
      const run = { run: "newest", trigger: "schedule", started_at: at, ended_at: at, outcome, notices: [why], stages: { fetch: report("failed", why), triage: skipped, analyse: skipped, result: report("failed", outcome) }, source_failed: outcome === "source_unavailable" };
      const health = { status: "degraded", reasons: [{ code: "source", status: "degraded", message: "it did not answer" }] };
      await route.fulfill({ json: { ...state, health, run, last_useful: useful } });
    });
    await page.goto(address);
    await page.waitForSelector("body[data-phase=ready]");
    const texts = await page.locator("#stages .is").allTextContents();
    assert.deepEqual(texts, ["failed", "skipped", "skipped", "failed"]);
    assert.deepEqual(await page.locator("#notices li").allTextContents(), [`Fetch failed: ${why}`]);
    assert.match(await page.textContent("#last-useful"), /Last run with work: .*4 items triaged, 2 settled, 2 findings/);
    assert.equal(/the last read failed/.test(await page.textContent("#limits")), outcome === "source_unavailable");
    assert.deepEqual(await page.locator("#doubts li").allTextContents(), ["Source: it did not answer"], "what is wrong is not behind a button");
    await everywhere(page, name);
    await context.close();
  }
  done("a stage that failed or was skipped says so in words, with its reason");
}

/** Real services in every state in which no work is done: the page says which, and why. */
async function states() {
  const agent = (...words) => ["agent.command", JSON.stringify([binary, "simulate", "agent", "--pace", "200", ...words])];
  const often = ["schedule.cron", '"*/3 * * * * *"'];
  const unreachable = ["source.base_url", '"http://127.0.0.1:9/contoso"'];
  const poor = [["budget.per_day", "0.05"], ["budget.per_run", "0.05"], ["triage.max_cost", "0.04"], ["analyze.max_cost", "0.04"]];
  const all = [
    ["failing source", [unreachable], "Last run: Source unavailable. http://127.0.0.1:9"],
    ["breaker open", [often, unreachable], "circuit breaker is open"],
    ["budget exhausted", [often, agent("--demo"), ...poor], "would exceed the budget of $0.05 per day"],
    ["provider down", [often, agent("--provider-down")], "the model provider is down"],
    ["provider limit", [often, agent("--provider-limit", "3600")], "usage limit"],
    ["first run undecided", [often, ["schedule.first_run", '"ask"']], 'Set [schedule] first_run to "baseline"'],
  ];
  for (const [name, settings, told] of all) {
    const service = await start(await freePort(), join(folder, name), settings);
    try {
      const context = await signedIn({ viewport: { width: 1360, height: 900 }, bypassCSP: true }, service.printed);
      const page = await context.newPage();
      await page.goto(new URL(service.printed).origin);
      await page.waitForSelector("body[data-phase=ready][data-link=live]");
      if (!settings.includes(often)) await page.click("#run-now");
      await page.waitForFunction((told) => document.querySelector("#doubts").textContent.includes(told), told);
      await everywhere(page, name);
      await context.close();
    } finally {
      await stop(service);
    }
  }
  done("each state in which nothing is done is told with its reason");
}

/** A finding full of markup and a megabyte of text does nothing but stand there. */
async function hostile() {
  // With the page's own policy in force.
  const context = await signedIn({ viewport: { width: 1360, height: 900 } });
  const page = await context.newPage();
  const evil = '<img src=x onerror="window.owned=1"><script>window.owned=1</script>';
  const finding = { summary: evil + "x".repeat(1 << 20), likely_causes: [evil], files: [{ path: "../../etc/passwd", reason: evil, exists: true }, { path: "javascript:alert(1)", reason: "", exists: true }], suggested_change: evil, risk: "low", effort: "small", confidence: "low", open_questions: [evil] };
  const item = { key: "ado/1", title: evil, item_type: evil, url: "javascript:window.owned=1", revision: 1, phase: "done", reason: "first_seen", verdict: null };
  const parts = [{ title: "", shape: "text", body: finding.summary }, { title: evil, shape: "list", body: [evil] }, { title: "Where to look", shape: "places", body: [{ path: "../../etc/passwd", notes: [], text: evil, quote: evil, address: "javascript:alert(1)" }] }, { title: "A", shape: "code", body: evil }];
  const row = { ...item, finding, parts, created_at: new Date().toISOString(), session: "x", run: "x" };
  await page.route("**/api/items/**", (route) => route.fulfill({ json: { item, findings: [row], sessions: [], story: [{ seq: 1, at: row.created_at, line: evil }], repository: "/r" } }));
  await page.route("**/api/findings**", (route) => route.fulfill({ json: [{ ...row, summary: evil, risk: evil, effort: evil, confidence: evil, files: 1 }] }));
  await page.goto(`${address}/items/ado/1`);
  await page.waitForSelector("#page .found");
  const seen = await page.evaluate(() => ({
    owned: window.owned,
    scripts: document.querySelectorAll("script").length,
    images: document.querySelectorAll("main img, dialog img").length,
    links: [...document.querySelectorAll("a[href]")].map((a) => a.href).filter((href) => href.startsWith("javascript:") || href.includes("passwd")),
    wide: document.documentElement.scrollWidth - innerWidth,
    text: document.querySelector("#page .found .prose").textContent.length,
  }));
  assert.deepEqual({ ...seen, text: 0 }, { owned: undefined, scripts: 1, images: 0, links: [], wide: Math.min(0, seen.wide), text: 0 });
  assert.ok(seen.text > 1 << 20);
  done("a finding of markup and a megabyte does nothing");
  await context.close();
}

/** Words without end stay within the page, and a state that cannot be read is told on it. */
async function odd() {
  const word = "Averyverylongwordwithoutanyspace".repeat(10);
  for (const [width, height] of [[1360, 900], [820, 1100], [390, 844]]) {
    const context = await signedIn({ viewport: { width, height }, bypassCSP: true });
    const page = await context.newPage();
    await page.route("**/events**", () => {});
    await page.route("**/api/state", async (route) => {
      const state = await (await route.fetch()).json();
      const began = new Date().toISOString();
      const session = { session: "1", stage: "deep", item: "ado/1", title: word, verdict: "hung", evidence: word, started_at: began, deadline_at: new Date(Date.now() + 60_000).toISOString(), processes: 12, progress: 3, worst_case: 0.5, model: word, pid: 1, tier: "pidns", attempt: 2 };
      const waits = { key: "ado/1", title: word, phase: "waiting", reason: "backoff", attempts: 2, deferrals: 0, next_attempt: began };
      await route.fulfill({ json: { ...state, sessions: [session], queue: { ...state.queue, items: [waits] }, provider: { until: began, reason: word }, run: { ...state.run, ended_at: null, lost: false, outcome: null, started_at: began, notices: [word] } } });
    });
    await page.goto(address);
    await page.waitForSelector("body[data-phase=ready] .slot.live");
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), 0, `${width} px: something is too wide`);
    await accessible(page, `words without end, ${width} px`);
    await context.close();
  }
  done("words without end stay within the page");
  const context = await signedIn({ viewport: { width: 1360, height: 700 }, bypassCSP: true });
  const page = await context.newPage();
  await page.route("**/api/state", (route) => route.fulfill({ status: 503, json: { error: { code: "store", message: "the state cannot be read" } } }));
  await page.goto(address);
  await page.waitForSelector("body[data-phase=failed]");
  assert.match(await page.textContent("#failure"), /The state cannot be read\./);
  await everywhere(page, "the state cannot be read");
  await page.unroute("**/api/state");
  await page.waitForSelector("body[data-phase=ready]");
  done("a state that cannot be read is told, and asked for again");
  await context.close();
}

async function restart(page) {
  const before = await page.locator("#activity li").count();
  await stop(heartbeat);
  await page.waitForSelector("body[data-link=lost]");
  assert.match(await page.textContent("#banner"), /Connection lost/);
  await everywhere(page, "connection lost");
  heartbeat = await start(port);
  signInAddress = heartbeat.printed;
  await page.waitForSelector("body[data-link=live]");
  assert.ok((await page.locator("#activity li").count()) >= before, "what was shown stays");
  await page.waitForFunction(() => !document.querySelector("#run-now").disabled);
  // The list is bounded: the line of the first run may have left it.
  const newest = await page.evaluate(() => Number(document.querySelector("#activity li").dataset.key));
  await page.click("#run-now");
  await page.waitForFunction(() => /Run started/.test(document.querySelector("#toast").textContent));
  await page.waitForFunction((newest) => [...document.querySelectorAll("#activity li")].some((line) => Number(line.dataset.key) > newest && /run +started/.test(line.textContent)), newest);
  done("over a restart the page reconnects, catches up, and can still act");
}

/** The report is a page of its own, in every mode. */
async function report(page) {
  const html = await (await page.request.get(`${address}/api/report?days=7&format=html`)).text();
  const [{ session }] = await (await page.request.get(`${address}/api/findings`)).json();
  const one = await (await page.request.get(`${address}/api/report?finding=${session}&format=html`)).text();
  for (const [name, text] of [["report", html], ["one finding as a file", one]]) {
    const context = await browser.newContext({ bypassCSP: true });
    const tab = await context.newPage();
    await tab.setContent(text);
    await everywhere(tab, name);
    await context.close();
  }
}

/** Bytes that a view loads: as sent, with headers, and unpacked. An open stream counts so far. */
async function weighed(page, view) {
  const client = await page.context().newCDPSession(page);
  const sent = new Map();
  let unpacked = 0;
  await client.send("Network.enable");
  client.on("Network.responseReceived", ({ requestId, response }) => sent.set(requestId, response.encodedDataLength));
  client.on("Network.dataReceived", ({ requestId, dataLength, encodedDataLength }) => {
    unpacked += dataLength;
    sent.set(requestId, (sent.get(requestId) ?? 0) + encodedDataLength);
  });
  client.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => sent.set(requestId, encodedDataLength));
  await view();
  await client.detach();
  return { transferred: [...sent.values()].reduce((sum, bytes) => sum + bytes, 0), unpacked };
}

/** With 5,000 items and 500 findings: the first view is small, and a reader needs no mouse and changes nothing. */
async function large() {
  const state = process.env.HEARTBEAT_TEST_LARGE_STATE;
  if (!state) return;
  const large = await start(await freePort(), state, [["report.code_url", '"https://code.example/{path}"']]);
  const origin = new URL(large.printed).origin;
  try {
    const context = await signedIn({ viewport: { width: 1360, height: 900 }, bypassCSP: true }, large.printed);
    const page = await context.newPage();
    const ready = async () => {
      await page.goto(origin);
      await page.waitForSelector("body[data-phase=ready][data-link=live]");
      await page.waitForFunction(() => document.querySelectorAll("#activity li").length > 0);
    };
    const { transferred, unpacked } = await weighed(page, ready);
    assert.equal((await (await page.request.get(`${origin}/api/findings?limit=500`)).json()).length, 500);
    assert.ok((await (await page.request.get(`${origin}/api/items?limit=1`)).json()).total >= 5000);
    assert.ok(unpacked > 100_000 && transferred > 20_000, `weighed: ${transferred} of ${unpacked}`);
    assert.ok(transferred <= 150_000, `the first view transfers ${transferred} bytes (${unpacked} unpacked)`);
    done(`5,000 items and 500 findings: the first view transfers ${transferred} bytes, ${unpacked} unpacked`);
    await everywhere(page, "5000 items");
    await byKeyboard(page);
    await twoTabs(page, origin);
    await searched(page, origin);
    await sharedLink(page, origin, state);
    await context.close();
    await readOnly(origin, state);
  } finally {
    await stop(large);
  }
}

/** Presses Tab until the focus is on what is looked for. */
async function tabTo(page, selector) {
  for (let presses = 0; presses < 200; presses += 1) {
    await page.keyboard.press("Tab");
    if (await page.evaluate((selector) => document.activeElement.matches(selector), selector)) return;
  }
  assert.fail(`${selector} cannot be reached with the keyboard`);
}

/** From the start to a finding, its file, feedback, the next one, and back. */
async function byKeyboard(page) {
  const origin = new URL(page.url()).origin;
  await tabTo(page, "#findings a");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#page .found");
  const finding = page.url();
  await tabTo(page, '#page .files a[href^="https://code.example/"]');
  await tabTo(page, ".opinions button");
  await page.keyboard.press("Space");
  await page.waitForSelector(".opinions [aria-pressed=true]");
  await tabTo(page, "#page .next a");
  await page.keyboard.press("Enter");
  await page.waitForFunction((before) => location.href !== before && document.querySelector("#page .found"), finding);
  await page.goBack(); // Alt and the left arrow are the browser's, not the page's.
  await page.waitForFunction((before) => location.href === before && document.querySelector("#page .opinions [aria-pressed=true]"), finding);
  await page.goBack();
  await page.waitForSelector("#start:not([hidden])");
  assert.equal(page.url(), `${origin}/`);
  done("by the keyboard alone: start, finding, its file, feedback, the next one, back");
}

/** What one tab read, the other shows as read. */
async function twoTabs(page, origin) {
  const other = await page.context().newPage();
  await other.goto(origin);
  await other.waitForSelector("#findings li");
  const [key] = await other.locator("#findings li").evaluateAll((rows) => rows.map((row) => row.dataset.key));
  const session = key.slice(0, 36);
  await page.goto(`${origin}/findings/${session}`);
  await page.waitForSelector("#page .found");
  await other.waitForFunction((session) => !document.querySelector("#findings li")?.dataset.key.startsWith(session), session);
  assert.notEqual(await page.title(), await other.title());
  await other.close();
  done("a finding read in one tab is read in the other");
}

/** The header's field narrows the findings and finds an item by its name from any page. */
async function searched(page, origin) {
  await page.goto(`${origin}/findings?proof=cited`);
  await page.waitForSelector("#page ul.list li");
  const all = await page.locator("#page ul.list li").count();
  assert.ok(all > 0 && all < 500, `${all} cited findings`);
  await page.fill("#filter", "RetryQueue");
  await page.waitForFunction((all) => document.querySelectorAll("#page ul.list li").length < all, all);
  await page.goto(`${origin}/runs`);
  await page.waitForSelector("#page tbody");
  await page.fill("#filter", "#4106");
  await page.press("#filter", "Enter");
  await page.waitForFunction(() => /^#4106 /.test(document.querySelector("#page h2").textContent));
  done("the header's field narrows the findings, and opens an item by its name");
}

/** A shared link opens one finding without sign-in, and nothing once it is revoked. */
async function sharedLink(page, origin, state) {
  const [{ session, title }] = await (await page.request.get(`${origin}/api/findings`)).json();
  await page.goto(`${origin}/findings/${session}`);
  await page.click("#page button:text-is('Share a link')");
  const link = await page.locator("#page a:text-is('Link to this finding only')").getAttribute("href");
  const stranger = await (await browser.newContext()).newPage();
  assert.equal((await stranger.goto(link)).status(), 200);
  assert.match(await stranger.textContent("body"), new RegExp(title.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")));
  for (const path of ["/", "/findings", `/findings/${session}`, `/api/findings/${session}`]) {
    assert.equal((await stranger.goto(origin + path)).status(), 401, path);
  }
  const revoked = spawnSync(binary, ["share", "--revoke", "--state-dir", state], { encoding: "utf8", cwd: folder });
  assert.equal(revoked.status, 0, revoked.stderr);
  assert.equal((await stranger.goto(link)).status(), 401, "revoked");
  await stranger.context().close();
  done("a shared link opens its finding and nothing else, until it is revoked");
}

/** A reader sees no control that changes anything, and every changing route of the router refuses. */
async function readOnly(origin, state) {
  const made = spawnSync(binary, ["dashboard", "--reader", "--no-open", "--state-dir", state], { encoding: "utf8", cwd: folder });
  assert.equal(made.status, 0, made.stderr);
  const by = made.stdout.match(/http:\S+token=\S+/)[0];
  const context = await signedIn({ viewport: { width: 1360, height: 900 } }, by);
  const page = await context.newPage();
  await page.goto(origin);
  await page.waitForSelector("body[data-phase=ready]");
  const [{ session, key }] = await (await page.request.get(`${origin}/api/findings`)).json();
  for (const path of ["/", `/findings/${session}`, `/items/${key}`, "/items?state=parked"]) {
    await page.goto(origin + path);
    await page.waitForSelector(path === "/" ? "body[data-phase=ready]" : "#page h2");
    const named = /^(Run now|Pause schedule|Resume schedule|Stop|Retry|Analyse again|Share a link|useful|wrong|done|Requeue.*)$/;
    const offered = (await page.locator("button:visible").allTextContents()).filter((text) => named.test(text));
    assert.deepEqual(offered, [], path);
  }
  const routes = JSON.parse(process.env.HEARTBEAT_TEST_ROUTES);
  for (const route of routes) {
    const path = route.replace("{*key}", key).replace(/\{\w+\}/, session);
    const status = await page.evaluate((path) => fetch(path, { method: "POST", body: "{}", headers: { "content-type": "application/json" } }).then((answer) => answer.status), path);
    assert.equal(status, 403, path);
  }
  assert.ok(routes.length >= 8, routes.join());
  await context.close();
  done(`a reader is offered nothing that changes, and ${routes.length} changing routes refuse`);
}
