// Makes the picture of the README from the demo, so that it shows what the program shows.
//
//   HEARTBEAT_TEST_CHROMIUM=/usr/bin/chromium HEARTBEAT_TEST_NODE_MODULES=~/.cache/heartbeat-tests/browser/node_modules \
//       node packaging/pictures/make.mjs target/release/heartbeat [FOLDER]
//
// `tests/run` installs the browser's packages there. Writes finding.webp beside itself, or into FOLDER.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const [binary, folder = dirname(fileURLToPath(import.meta.url))] = process.argv.slice(2);
const { chromium } = createRequire(join(process.env.HEARTBEAT_TEST_NODE_MODULES, "x.js"))("playwright-core");
/** The largest picture that the README should carry. */
const MOST_BYTES = 150_000;

const place = mkdtempSync(join(tmpdir(), "heartbeat-pictures-"));
const state = ["--state-dir", join(place, "state")];
const shared = join(place, "finding.html");
const browser = await chromium.launch({ executablePath: process.env.HEARTBEAT_TEST_CHROMIUM, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
try {
  execFileSync(binary, ["--once", "--demo", "--quiet", "--set", "limits.max_load_per_core=20.0", ...state]);
  execFileSync(binary, ["share", "4118", "--out", shared, ...state]);
  const page = await browser.newPage({ viewport: { width: 1000, height: 900 }, colorScheme: "light", locale: "en-GB" });
  await page.goto(`file://${shared}`);
  const client = await page.context().newCDPSession(page);
  const { data } = await client.send("Page.captureScreenshot", { format: "webp", quality: 82 });
  const file = join(folder, "finding.webp");
  writeFileSync(file, Buffer.from(data, "base64"));
  const { size } = statSync(file);
  console.log(`${file}: ${size} bytes`);
  if (size > MOST_BYTES) throw new Error(`${file} is larger than ${MOST_BYTES} bytes`);
} finally {
  await browser.close();
  rmSync(place, { recursive: true, force: true });
}
