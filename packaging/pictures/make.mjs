// Makes the pictures of the documents from the demo, so that they show what the program shows.
//
//   HEARTBEAT_TEST_CHROMIUM=/usr/bin/chromium HEARTBEAT_TEST_NODE_MODULES=~/.cache/heartbeat-tests/browser/node_modules \
//       node packaging/pictures/make.mjs target/release/heartbeat [FOLDER]
//
// `tests/run` installs the browser's packages there. Writes dashboard.webp and finding.webp beside itself, or into FOLDER.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const [binary, folder = dirname(fileURLToPath(import.meta.url))] = process.argv.slice(2);
const { chromium } = createRequire(join(process.env.HEARTBEAT_TEST_NODE_MODULES, "x.js"))("playwright-core");
const state = mkdtempSync(join(tmpdir(), "heartbeat-pictures-"));
const set = (key, value) => ["--set", `${key}=${value}`];
/** The largest picture that the README should carry. */
const MOST_BYTES = 150_000;

/** The demo; its address with the token when it has said it. */
function start() {
  const child = spawn(binary, ["--demo", "--state-dir", join(state, "state"), ...set("http.listen", '"127.0.0.1:0"'), ...set("schedule.cron", '"0 7 * * 1-5"'),
    ...set("limits.max_load_per_core", "20.0")], { stdio: ["ignore", "ignore", "pipe"] });
  const address = new Promise((resolve, reject) => {
    let said = "";
    child.once("exit", (code) => reject(new Error(`the demo left with ${code}: ${said}`)));
    child.stderr.on("data", (chunk) => {
      said += chunk;
      const printed = said.match(/dashboard  (http:\S+\?token=[0-9a-f]{64})/)?.[1];
      if (printed) resolve(printed);
    });
  });
  return { child, address };
}

async function take(page, name) {
  const client = await page.context().newCDPSession(page);
  const { data } = await client.send("Page.captureScreenshot", { format: "webp", quality: 82 });
  const file = join(folder, `${name}.webp`);
  writeFileSync(file, Buffer.from(data, "base64"));
  const { size } = statSync(file);
  console.log(`${file}: ${size} bytes`);
  if (size > MOST_BYTES) throw new Error(`${file} is larger than ${MOST_BYTES} bytes`);
}

const demo = start();
const browser = await chromium.launch({ executablePath: process.env.HEARTBEAT_TEST_CHROMIUM, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 960 }, colorScheme: "light", reducedMotion: "reduce", timezoneId: "Europe/Berlin", locale: "en-GB" });
  page.setDefaultTimeout(180_000);
  await page.goto(await demo.address);
  await page.waitForSelector("body[data-phase=ready][data-link=live]");
  await page.click("#run-now");
  await page.waitForFunction(() => document.querySelectorAll("#findings > li").length >= 6 && document.querySelectorAll(".slot.live").length === 1);
  await page.waitForFunction(() => !document.querySelector("#toast.shown"));
  await take(page, "dashboard");
  await page.waitForFunction(() => !document.querySelector(".slot.live"));
  await page.goto(`${new URL(page.url()).origin}/#item/ado/4116`);
  await page.waitForSelector("#story[open] .found");
  await take(page, "finding");
} finally {
  await browser.close();
  demo.child.removeAllListeners("exit");
  demo.child.kill("SIGTERM");
  await new Promise((resolve) => demo.child.once("exit", resolve));
  rmSync(state, { recursive: true, force: true });
}
