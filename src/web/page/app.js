// Connection and state: one snapshot, then events; a reconnect resumes after the last event seen.
import { byId, capital, clock, h, itemPath, learn, mark, moment, say, short, stageName, words } from "./dom.js";
import * as views from "./views.js";
import { findingPage, findingsPage, missing, story } from "./finding.js";
import * as items from "./items.js";
import { figureTable, runPage, runsPage, sessionPage, sessionsPage } from "./run.js";

const page = { state: null, skew: 0, runs: [], findings: [], lines: [], seq: 0, measure: "Duration", figures: null, by: "Days", paused: false, may: true, title: "", filter: new URLSearchParams(location.search).get("q") ?? "" };
const now = () => Date.now() + page.skew;

async function read(path) {
  const answer = await fetch(path, { headers: { accept: "application/json" } }).catch(() => { throw new Error("Cannot reach heartbeat; is it running?"); });
  if (!answer.ok) {
    const told = await answer.json().catch(() => null);
    throw new Error(told?.error?.message ?? `${path} answered ${answer.status}`);
  }
  return learn(await answer.json());
}

/** What this reader has opened; remembered by the browser. */
const SEEN = "heartbeat-seen";
const seen = new Set(stored());
function stored() {
  try { return JSON.parse(localStorage.getItem(SEEN)) ?? []; } catch { return []; }
}
const isSeen = (row) => seen.has(row.session) || Boolean(row.feedback);
function markSeen(session) {
  seen.add(session);
  try { localStorage.setItem(SEEN, JSON.stringify([...seen].slice(-3000))); } catch { /* A private window remembers nothing. */ }
  page.findings = byWorth(page.findings);
}
/** The server's order; what was read sinks. */
const byWorth = (rows) => rows.map((row) => [row.worth * (isSeen(row) ? 0.1 : 1), row]).sort(([a], [b]) => b - a).map(([, row]) => row);

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
  views.doubts(state);
  views.run(state, now());
  views.sessions(state, now(), acts);
  views.limits(state, now());
  views.queue(state, now(), filter, acts);
  views.findings(page.findings, filter, isSeen);
  views.history(page.runs, page.measure);
  const running = state.run && !state.run.ended_at && !state.run.lost;
  const button = byId("run-now");
  const lost = document.body.dataset.link === "lost";
  button.disabled = !state.can.run || running || lost;
  byId("schedule-pause").disabled = lost;
  mark(button, "title", state.can.run ? null : "This process does one run and exits; start the service to run on demand.");
  titled();
  place(state.place);
  say(byId("version"), `heartbeat ${state.version}`);
}

/** What this dashboard is about. */
function place({ organization, project, repository, demo }) {
  say(byId("place"), [organization, project, repository].filter(Boolean).join(" / "));
  byId("demo").hidden = !demo;
}

/** Every title says what the page shows and what it is about: two tabs can be told apart. */
function titled() {
  const { place: about, run, sessions } = page.state ?? {};
  const running = run && !run.ended_at && !run.lost && !page.title ? `● ${sessions.length} running` : "";
  document.title = [running, page.title, about?.project, about?.demo && "DEMO", "heartbeat"].filter(Boolean).join(" · ");
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
  learn(state.queue);
  learn(state.sessions);
  show();
  liveSession();
}

async function refreshLists() {
  [page.runs, page.findings, page.figures] = await Promise.all([read("/api/runs?limit=40"), worthwhile(), read("/api/figures")]);
  showFigures();
  show();
}

/** The first findings; more only for a reader who has read almost all of these. */
const SOME = 25;
async function worthwhile() {
  const rows = await read(`/api/findings?limit=${SOME}`);
  const enough = rows.length < SOME || rows.filter((row) => !isSeen(row)).length > 5;
  return byWorth(enough ? rows : await read("/api/findings?limit=500"));
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
  // Of the newest events that the page begins with, its lists know already.
  if (recorded.seq > page.known && ["run_started", "run_ended", "finding_stored"].includes(recorded.event)) listsSoon();
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?…]$/.test(text) ? "" : ".");

/** Events that the page begins with; a run has its own log. */
const FIRST_EVENTS = 80;

async function start() {
  try {
    const [state, me] = await Promise.all([read("/api/state"), read("/api/me"), refreshLists()]);
    page.may = me.may_act;
    document.body.dataset.may = page.may ? "act" : "read";
    page.known = state.seq;
    page.seq = Math.max(0, state.seq - FIRST_EVENTS);
    page.lines = [];
    take(state);
    document.body.dataset.phase = "ready";
    byId("failure").hidden = true;
    connect();
    await route();
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

const retry = (item, button) => { button.disabled = true; acts.retry(item); };
const tools = () => ({ may: page.may, retry, feedback: acts.feedback, share, brief });

/** Copies a finding as a task for a coding agent; without a clipboard it is a file. */
async function brief(session, said) {
  const address = `/api/findings/${session}/brief`;
  const text = await fetch(address).then((answer) => answer.ok && answer.text()).catch(() => null);
  if (!text) return toast("The task cannot be read.");
  const copied = await navigator.clipboard?.writeText(text).then(() => true, () => false);
  if (copied) toast("The task is copied.");
  said.replaceChildren(h("a", { href: address, download: "task.md" }, copied ? "The same as a file" : "The task as a file"));
}

/** Copies a link that opens only this finding. */
async function share(session, said) {
  const answer = await fetch(`/api/share/${session}`, { method: "POST" }).catch(() => null);
  const told = await answer?.json().catch(() => null);
  if (!answer?.ok) return toast(told?.error?.message ?? "Cannot reach heartbeat.");
  const link = new URL(told.link, location.origin).href;
  said.replaceChildren(h("a", { href: link, target: "_blank", rel: "noopener" }, "Link to this finding only"), ` until ${moment(told.until)}`);
  await navigator.clipboard?.writeText(link).then(() => toast("The link is copied."), () => {});
}

/** Every page: the form of its address, and how it is made: title and content, or content that shows itself. */
const PAGES = [
  [/^\/findings$/, async () => ["Findings", findingsPage(byWorth(await read("/api/findings?limit=500")), location.search, page.filter.trim().toLowerCase(), isSeen)]],
  [/^\/findings\/([^/]+)$/, async (id) => {
    const row = await read(`/api/findings/${id}`);
    const item = await read(`/api/items/${row.key}`);
    markSeen(row.session);
    const next = page.findings.find((other) => !isSeen(other));
    return [`${short(row.key)} ${row.title}`, findingPage(row, item, next, tools())];
  }],
  [/^\/items$/, () => openList()],
  [/^\/items\/(.+)$/, async (id) => {
    const data = await read(`/api/items/${id}`);
    for (const row of data.findings) markSeen(row.session);
    return [`${short(data.item.key)} ${data.item.title}`, story(data, tools())];
  }],
  [/^\/runs$/, async () => ["Runs", runsPage(await read("/api/runs?limit=200"))]],
  [/^\/runs\/([^/]+)$/, async (id) => {
    const data = await read(`/api/runs/${id}`);
    return [`Run of ${moment(data.run.started_at)}`, runPage(data)];
  }],
  [/^\/sessions$/, async () => ["Sessions", sessionsPage(await read("/api/sessions?limit=200"))]],
  [/^\/sessions\/([^/]+)$/, (id) => openSession(id)],
];

/** Shows the page that the address names. `focus`: a person went there. */
async function route(focus = false) {
  const { pathname, href } = location;
  const [form, make] = PAGES.find(([form]) => form.test(pathname)) ?? [];
  const isStart = pathname === "/";
  byId("start").hidden = !isStart;
  byId("page").hidden = isStart;
  for (const entry of byId("nav").children) mark(entry, "aria-current", pathname === "/" ? null : pathname.startsWith(entry.getAttribute("href")) && "page");
  live = null;
  if (isStart) {
    page.title = "";
    titled();
    show();
    return focus && byId("main").focus();
  }
  const inside = byId("page");
  inside.setAttribute("aria-busy", "true");
  try {
    if (!make) throw new Error(`There is no page at ${pathname}. The findings, items, runs and sessions are linked above.`);
    const made = await make(pathname.match(form)[1]);
    if (location.href !== href || !made) return;
    [page.title] = made;
    inside.replaceChildren(...made[1].filter(Boolean));
  } catch (error) {
    if (location.href !== href) return;
    page.title = "Not found";
    inside.replaceChildren(...missing("Not found", sentence(error.message)));
  } finally {
    if (location.href === href) inside.removeAttribute("aria-busy");
  }
  titled();
  if (focus) inside.querySelector("h2")?.focus();
}

function go(to) {
  history.pushState(null, "", to);
  scrollTo(0, 0);
  route(true);
}

/** A live session's page follows it. */
let live = null;
async function openSession(id) {
  const data = await read(`/api/sessions/${id}`);
  const { session } = data;
  const stop = views.stopButton(short(session.item) || stageName(session.stage), () => acts.stop(session.session));
  if (!session.ended_at) live = { id, at: Date.now() };
  return [`${capital(stageName(session.stage))} ${short(session.item)}`.trim(), sessionPage(data, { stop: tools().may && stop })];
}
async function liveSession() {
  if (!live) return;
  const row = page.state.sessions.find((one) => one.session === live.id);
  const now = byId("page").querySelector(".now");
  if (row && now) say(now, [words(row.stopping ? `stopping: ${row.stopping}` : row.verdict ?? "starting"), row.beat?.open_tool && `tool ${row.beat.open_tool}`, row.evidence].filter(Boolean).join(" · "));
  if (Date.now() - live.at < 1000) return;
  const { id } = live;
  live.at = Date.now();
  const data = await read(`/api/sessions/${id}`).catch(() => null);
  if (!data || live?.id !== id) return;
  if (data.session.ended_at) return route();
  const fresh = h("div", ...sessionPage(data, {}).filter(Boolean));
  // Only what changes: the button in use keeps its focus.
  for (const part of [".pairs", ".said", ".life"]) renew(byId("page").querySelector(part), fresh.querySelector(part));
}

/** Replaces a part that changed. A list that was scrolled to its end stays there. */
function renew(old, fresh) {
  if (!old || old.isEqualNode(fresh)) return;
  const list = old.querySelector(".talk");
  const followed = !list || list.scrollTop + list.clientHeight >= list.scrollHeight - 4;
  const at = list?.scrollTop;
  const focused = list && document.activeElement === list;
  old.replaceWith(fresh);
  const renewed = fresh.querySelector(".talk");
  if (!renewed) return;
  renewed.scrollTop = followed ? renewed.scrollHeight : at;
  if (focused) renewed.focus({ preventScroll: true });
}

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

let findingsDue = null;
function findingsSoon() {
  clearTimeout(findingsDue);
  findingsDue = setTimeout(() => { if (location.pathname === "/findings") route(); }, 200);
}

/** Enter in the header's field: the one item with this name or these words, or the list. */
async function search(typed) {
  const name = typed.replace(/^#/, "");
  const found = await read(`/api/items?limit=50&q=${encodeURIComponent(name)}`).catch(() => ({ total: 0, items: [] }));
  const known = found.items.find((item) => item.key.endsWith(`/${name}`)) ?? (found.total === 1 && found.items[0]);
  // A tracker's own name, such as PARCEL-4, is not among the words.
  const named = known ? known.key : await read(`/api/items/${typed.split("/").map(encodeURIComponent).join("/")}`).then((one) => one.item.key, () => null);
  page.filter = byId("filter").value = "";
  go(named ? itemPath(named) : `/items?q=${encodeURIComponent(name)}`);
}

async function openList() {
  const inside = byId("page");
  const asked = items.asked(location.search);
  const load = (more) => read(`/api/items?${items.query(asked)}&limit=50&offset=${more}`);
  const list = await load(0);
  if (location.pathname !== "/items") return null;
  items.show(inside, list, asked, { may: tools().may, load, retryMany: (count) => acts.retryMany(asked, count).then((done) => done && openList()), go: (to) => { history.replaceState(null, "", to); openList(); } });
  page.title = "Items";
  titled();
  return null;
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
    if (page.filter.trim() && page.findings.length === SOME) read("/api/findings?limit=500").then((rows) => { page.findings = byWorth(rows); show(); }, () => {});
    if (!["/", "/findings"].includes(location.pathname)) return;
    const address = new URL(location.href);
    if (page.filter) address.searchParams.set("q", page.filter);
    else address.searchParams.delete("q");
    history.replaceState(null, "", address);
    if (location.pathname === "/findings") return findingsSoon();
    show();
    matchesSoon();
  });
  byId("filter").addEventListener("keydown", (event) => { if (event.key === "Enter" && page.filter.trim()) search(page.filter.trim()); });
  matchesSoon();
  byId("pause").addEventListener("click", (event) => {
    page.paused = !page.paused;
    mark(event.target, "aria-pressed", String(page.paused));
    say(event.target, page.paused ? "Resume" : "Pause");
    views.activity(page.lines, page.paused);
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
  byId("reasons").addEventListener("click", (event) => { if (event.target === byId("reasons")) byId("reasons").close(); });
  // What another tab opened is read here too.
  addEventListener("storage", (event) => {
    if (event.key !== SEEN) return;
    for (const session of stored()) seen.add(session);
    page.findings = byWorth(page.findings);
    show();
  });
  addEventListener("popstate", () => route(true));
  // Our own links change the page without loading it again; a new tab or window is the browser's.
  addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || link.target || link.hasAttribute("download")) return;
    const to = new URL(link.href);
    const own = to.origin === location.origin && (to.pathname === "/" || PAGES.some(([form]) => form.test(to.pathname)));
    if (!own || to.hash) return;
    event.preventDefault();
    go(to.pathname + to.search);
  });
  setInterval(tick, 1000);
}

// Addresses of earlier versions.
const [, kind, id] = location.hash.match(/^#(item|run|session)\/(.+)$/) ?? [];
if (kind) history.replaceState(null, "", `/${kind}s/${id}`);
prepare();
start();
