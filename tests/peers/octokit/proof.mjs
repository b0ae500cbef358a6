// Drives the simulated GitHub with Octokit, a client we did not write.
// Usage: node proof.mjs BASE_URL TOKEN APP_KEY_FILE. Prints one JSON object with what Octokit got.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The packages are in the cache of the tests and not beside this file.
const require = createRequire(process.env.NODE_PATH + "/");
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { Octokit } = await load("@octokit/rest");
const { throttling } = await load("@octokit/plugin-throttling");
const { createAppAuth } = await load("@octokit/auth-app");

const [baseUrl, token, keyFile] = process.argv.slice(2);
const waited = [];
const Client = Octokit.plugin(throttling);
const throttle = {
  onRateLimit: (after) => { waited.push(["primary", after]); return true; },
  onSecondaryRateLimit: (after) => { waited.push(["secondary", after]); return true; },
  fallbackSecondaryRateRetryAfter: 1,
};
const octokit = new Client({ baseUrl, auth: token, throttle });
const at = { owner: "parcel", repo: "tracking" };

const refused = async (call) => {
  try { await call(); } catch (error) { return [error.status, error.message.split(" - ")[0]]; }
  throw new Error("this should have been refused");
};
const fault = async (name) => fetch(new URL("/_simulator/faults", baseUrl), { method: "POST", body: JSON.stringify(name) });

const listed = await octokit.paginate(octokit.rest.issues.listForRepo,
  { ...at, state: "all", sort: "updated", direction: "asc", per_page: 7, since: "2000-01-01T00:00:00Z" });
const once = await octokit.rest.issues.listForRepo({ ...at, state: "all", per_page: 5 });
const same = await refused(() => octokit.rest.issues.listForRepo(
  { ...at, state: "all", per_page: 5, headers: { "if-none-match": once.headers.etag } }));
const after = (await octokit.rest.rateLimit.get()).data.rate.used;

await fault("secondary403@issue*1");
const throttled = await octokit.rest.issues.get({ ...at, issue_number: 4 });
const comment = await octokit.rest.issues.createComment({ ...at, issue_number: 4, body: "from **Octokit**" });
const labels = await octokit.rest.issues.addLabels({ ...at, issue_number: 4, labels: ["seen-by-octokit"] });

const app = new Octokit({ baseUrl, authStrategy: createAppAuth,
  auth: { appId: "Iv1.test", privateKey: readFileSync(keyFile, "utf8"), installationId: 25164822 } });
const ofApp = await app.rest.issues.listForRepo({ ...at, state: "all", per_page: 3 });

console.log(JSON.stringify({
  listed: listed.length,
  issues: listed.filter((issue) => !issue.pull_request).length,
  numbers: new Set(listed.map((issue) => issue.number)).size,
  same, waited, used: after,
  title: throttled.data.title,
  comment: [comment.status, comment.data.body],
  labels: labels.data.map((label) => label.name),
  deleted: await refused(() => octokit.rest.issues.get({ ...at, issue_number: 2 })),
  app: ofApp.data.length,
}));
