// Connection and state: one snapshot, then events; a reconnect resumes after the last event seen.
import { byId, clock, h, mark, say } from "./dom.js";
import * as views from "./views.js";
import { missing, story, waiting } from "./finding.js";
import * as items from "./items.js";
import { figureTable, runPage, sessionPage } from "./run.js";

const page = { state: null, skew: 0, runs: [], findings: [], lines: [], seq: 0, measure: "Duration", figures: null, by: "Days", paused: false, all: false, filter: new URLSearchParams(location.search).get("q") ?? "" };
const now = () => Date.now() + page.skew;

async function read(path) {
  const answer = await fetch(path, { headers: { accept: "application/json" } }).catch(() => { throw new Error("Cannot reach heartbeat; is it running?"); });
  if (!answer.ok) {
    const told = await answer.json().catch(() => null);
    throw new Error(told?.error?.message ?? `${path} answered ${answer.status}`);
  }
  return answer.json();
}

async function act(path, done, body) {
  const answer = await fetch(path, { method: "POST", body: body && JSON.stringify(body), headers: body && { "content-type": "application/json" } }).catch(() => { toast("Cannot reach heartbeat."); throw new Error("unreachable"); });
  const told = await answer.json().catch(() => null);
  if (!answer.ok) {
    toast(told?.error?.message ?? "The action failed.");
    throw new Error("refused");
  }
  toast(done);
}

const acts = {
  open: (key) => { location.hash = `#item/${key}`; },
  stop: (session) => act(`/api/sessions/${session}/stop`, "Stopping the session; its item will be parked."),
  retryMany: (wanted, count) => act("/api/retry", `${count === 1 ? "1 item is" : `${count} items are`} queued again.`, { state: wanted.state, reason: wanted.reason || null, q: wanted.q, count }).then(() => true, () => false),
  retry: (key) => act(`/api/retry/${key}`, `${key} is queued again.`).catch(() => {}),
  feedback: (key, opinion, note) => act(`/api/feedback/${key}`, `Marked as ${opinion}.`, { opinion, note }).then(() => { listsSoon(); return true; }, () => false),
};

function show() {
  const { state } = page;
  if (!state) return;
  const filter = page.filter.trim().toLowerCase();
  views.health(state);
  views.run(state, now());
  views.sessions(state, now(), acts);
  views.limits(state, now());
  views.queue(state, now(), filter, acts);
  views.findings(page.findings, filter, acts, page.all);
  views.history(page.runs, page.measure);
  const running = state.run && !state.run.ended_at && !state.run.lost;
  const button = byId("run-now");
  const lost = document.body.dataset.link === "lost";
  button.disabled = !state.can.run || running || lost;
  byId("schedule-pause").disabled = lost;
  mark(button, "title", state.can.run ? null : "This process does one run and exits; start the service to run on demand.");
  document.title = `${running ? `● ${state.sessions.length} running · ` : ""}heartbeat`;
  say(byId("version"), `heartbeat ${state.version}`);
}

/** Updates the running times between pushes. */
function tick() {
  if (!page.state || document.body.dataset.link === "lost") return;
  views.run(page.state, now());
  views.sessions(page.state, now(), acts);
}

function take(state) {
  page.state = state;
  page.updated = Date.parse(state.now);
  page.skew = Date.parse(state.now) - Date.now();
  show();
}

async function refreshLists() {
  [page.runs, page.findings, page.figures] = await Promise.all([read("/api/runs?limit=60"), read("/api/findings?limit=100"), read("/api/figures")]);
  showFigures();
  show();
}

const showFigures = () => page.figures && byId("figures").replaceChildren(...figureTable(page.figures, page.by));

let listsDue = null;
function listsSoon() {
  clearTimeout(listsDue);
  listsDue = setTimeout(() => refreshLists().catch(() => {}), 150);
}

function linked(link, text) {
  document.body.dataset.link = link;
  say(byId("link"), text);
  const banner = byId("banner");
  banner.hidden = link !== "lost";
  if (link === "lost") say(banner, `Connection lost. Last update at ${clock(page.updated ?? now())}; reconnecting…`);
  if (link === "lost") byId("run-now").disabled = byId("schedule-pause").disabled = true;
  else show();
}

let source = null;
function connect() {
  source?.close();
  source = new EventSource(`/events?after=${page.seq}`);
  source.addEventListener("open", () => linked("live", "live"));
  source.addEventListener("error", () => {
    linked("lost", "reconnecting…");
    // A browser does not reconnect after an error status; we retry and show the reason.
    if (source.readyState === EventSource.CLOSED) setTimeout(start, 2000);
  });
  source.addEventListener("state", (event) => take(JSON.parse(event.data)));
  source.addEventListener("reset", () => start());
  source.addEventListener("happened", (event) => happened(JSON.parse(event.data)));
}

function happened(recorded) {
  if (recorded.seq <= page.seq) return;
  page.seq = recorded.seq;
  if (recorded.line) {
    page.lines.unshift(recorded);
    page.lines.length = Math.min(page.lines.length, 400);
    views.activity(page.lines, page.paused);
  }
  if (["run_started", "run_ended", "finding_stored"].includes(recorded.event)) listsSoon();
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?…]$/.test(text) ? "" : ".");

async function start() {
  try {
    const [state] = await Promise.all([read("/api/state"), refreshLists()]);
    page.seq = Math.max(0, state.seq - 200);
    page.lines = [];
    take(state);
    document.body.dataset.phase = "ready";
    byId("failure").hidden = true;
    connect();
    openFromAddress();
  } catch (error) {
    linked("lost", "not connected");
    if (!page.state) {
      document.body.dataset.phase = "failed";
      byId("failure").hidden = false;
      say(byId("failure-why"), `${sentence(error.message)} Retrying every two seconds.`);
      say(byId("health"), "unknown");
      byId("banner").hidden = true;
    } else say(byId("banner"), `${sentence(error.message)} Retrying…`);
    setTimeout(start, 2000);
  }
}

function toast(text) {
  const element = byId("toast");
  say(element, text);
  element.classList.add("shown");
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => element.classList.remove("shown"), Math.max(4000, text.length * 60)); // Long enough to be read.
}

/** Pages that open as dialogs, each with its data path and its renderer. */
const PAGES = { item: ["/api/items/", story], run: ["/api/runs/", runPage], session: ["/api/sessions/", sessionPage] };
const PAGE = /^#(item|run|session)\/(.+)$/;
const LIST = /^#\/items\b/;
/** The list that an item was opened from; closing the item returns to it. */
let listBelow = "";

/** Counts matching items of all states: settled ones are in no other list. */
let matchesDue = null;
function matchesSoon() {
  clearTimeout(matchesDue);
  const words = page.filter.trim();
  if (!words) return byId("matches").replaceChildren();
  matchesDue = setTimeout(async () => {
    const found = await read(`/api/items?limit=1&q=${encodeURIComponent(words)}`).catch(() => null);
    if (!found || words !== page.filter.trim()) return;
    byId("matches").replaceChildren(items.matching(found, words));
  }, 200);
}

async function openList() {
  const dialog = byId("items");
  const asked = items.asked(location.hash);
  listBelow = location.hash;
  const load = (more) => read(`/api/items?${items.query(asked)}&limit=50&offset=${more}`);
  try {
    const list = await load(0);
    if (!LIST.test(location.hash)) return;
    items.show(dialog, list, asked, { load, open: acts.open, retryMany: (count) => acts.retryMany(asked, count).then((done) => done && openList()), close: () => dialog.close(), go: (to) => history.replaceState(null, "", to) || openList() });
  } catch (error) {
    dialog.replaceChildren(...items.failed(error.message, () => dialog.close()));
  }
  if (!dialog.open) dialog.showModal();
}

async function openFromAddress() {
  const dialog = byId("story");
  if (LIST.test(location.hash)) {
    if (dialog.open) dialog.close();
    return openList();
  }
  if (!PAGE.test(location.hash)) {
    listBelow = "";
    if (byId("items").open) byId("items").close();
  }
  const [, kind, id] = location.hash.match(PAGE) ?? [];
  if (!kind) return dialog.open && dialog.close();
  const key = decodeURIComponent(id);
  const [path, make] = PAGES[kind];
  const close = () => dialog.close();
  const address = location.hash;
  const title = kind === "item" ? key : `${kind} ${key.slice(0, 18)}`;
  dialog.replaceChildren(...waiting(title, close));
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  const retry = (item, button) => { button.disabled = true; acts.retry(item); };
  try {
    const data = await read(path + key);
    if (location.hash === address) dialog.replaceChildren(...make(data, { close, retry, feedback: acts.feedback, open: acts.open }));
  } catch (error) {
    if (location.hash === address) dialog.replaceChildren(...missing(title, error.message, close));
  }
}

/** A radio group of buttons, for mouse and arrow keys. */
function choices(group, names, chosen, choose) {
  const pick = (name) => {
    for (const button of group.children) {
      mark(button, "aria-checked", String(button.textContent === name));
      button.tabIndex = button.textContent === name ? 0 : -1;
    }
    choose(name);
  };
  group.append(...names.map((name) => h("button", { role: "radio", onclick: () => pick(name) }, name)));
  group.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return;
    const all = [...group.children];
    const next = all[(all.indexOf(document.activeElement) + by + all.length) % all.length];
    next.focus();
    pick(next.textContent);
    event.preventDefault();
  });
  pick(chosen);
}

function prepare() {
  choices(byId("measures"), Object.keys(views.MEASURES), page.measure, (measure) => { page.measure = measure; views.history(page.runs, measure); });
  choices(byId("figures-by"), ["Days", "Weeks"], page.by, (by) => { page.by = by; showFigures(); });
  byId("filter").value = page.filter;
  byId("filter").addEventListener("input", (event) => {
    page.filter = event.target.value;
    const address = new URL(location.href);
    if (page.filter) address.searchParams.set("q", page.filter);
    else address.searchParams.delete("q");
    history.replaceState(null, "", address);
    show();
    matchesSoon();
  });
  matchesSoon();
  byId("pause").addEventListener("click", (event) => {
    page.paused = !page.paused;
    mark(event.target, "aria-pressed", String(page.paused));
    say(event.target, page.paused ? "Resume" : "Pause");
    views.activity(page.lines, page.paused);
  });
  byId("findings-all").addEventListener("click", () => {
    page.all = true;
    show();
    byId("findings").querySelector("li:nth-child(7) button")?.focus();
  });
  byId("run-now").addEventListener("click", () => act("/api/run", "Run started.").catch(() => {}));
  byId("schedule-pause").addEventListener("click", () => {
    const paused = page.state?.schedule.paused;
    act(paused ? "/api/resume" : "/api/pause", paused ? "Schedule resumed." : "Schedule paused: no scheduled run starts until it is resumed. Run now still works.").catch(() => {});
  });
  byId("health").addEventListener("click", () => {
    const dialog = byId("reasons");
    if (!page.state) return;
    dialog.replaceChildren(...views.reasons(page.state, () => dialog.close()));
    dialog.showModal();
  });
  const without = () => history.pushState(null, "", location.pathname + location.search);
  byId("story").addEventListener("close", () => {
    if (!PAGE.test(location.hash)) return;
    if (listBelow && byId("items").open) history.pushState(null, "", listBelow);
    else without();
  });
  byId("items").addEventListener("close", () => { if (LIST.test(location.hash)) without(); });
  for (const dialog of [byId("items"), byId("story"), byId("reasons")]) dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  addEventListener("hashchange", openFromAddress);
  addEventListener("popstate", openFromAddress);
  setInterval(tick, 1000);
}

prepare();
start();
