// Elements and formatting. Untrusted text only becomes text nodes; no markup is built from strings.

/** An element: `h("a.link", {href}, "text", child)`. */
export function h(name, ...rest) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  const properties = rest[0] && rest[0].constructor === Object ? rest.shift() : {};
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...rest.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An element of a drawing: text and numbers only, as the policy allows no style of its own. */
export function svg(name, properties, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(properties)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

export const byId = (id) => document.getElementById(id);

/** Sets text only if it differs, so that screen readers do not repeat it and a selection stays. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function mark(element, name, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

/** Updates a list from data; keeps existing elements, so that focus stays. */
export function keyed(parent, rows, keyOf, make, update) {
  const old = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  for (const row of rows) {
    const key = String(keyOf(row));
    let element = old.get(key);
    if (element) old.delete(key);
    else {
      element = make(row);
      element.dataset.key = key;
    }
    if (element === place) place = place.nextElementSibling;
    else parent.insertBefore(element, place);
    update(element, row);
  }
  for (const element of old.values()) element.remove();
}

/** Whether a browser can open it as a page. A simulated tracker on this machine has no pages. */
export function isPage(address) {
  try {
    const { protocol, hostname } = new URL(address);
    return /^https?:$/.test(protocol) && !/^(localhost|127\.[\d.]+|\[::1\])$/.test(hostname);
  } catch {
    return false;
  }
}

/** A link to a page, or plain text. */
export const link = (address, ...content) => isPage(address)
  ? h("a", { href: new URL(address).href, target: "_blank", rel: "noopener noreferrer" }, ...content)
  : h("span", ...content);

/** A log line without its time, which is shown separately in the reader's time zone. */
export const untimed = (line) => line.replace(/^\d\d:\d\d:\d\d.*?  +/, "").replace(/[\w.-]+#\d+/g, (word) => names.get(word) ?? word);

/** Addresses of our own pages. */
export const itemPath = (key) => `/items/${(names.get(key) ?? key).split("/").map(encodeURIComponent).join("/")}`;
export const findingPath = (session) => `/findings/${session}`;
export const runPath = (run) => `/runs/${run}`;
export const sessionPath = (session) => `/sessions/${session}`;

/** Text with its `code` as code. */
export const prose = (text) => String(text ?? "").split(/(`[^`\n]+`)/).filter(Boolean).map((piece) => (/^`.+`$/.test(piece) ? h("code", piece.slice(1, -1)) : piece));

/** Text with its paragraphs, lists and blocks of code. */
export const blocks = (text) => String(text ?? "").split(/^```.*\n([^]*?)^```[ \t]*$/m).flatMap((piece, index) => (index % 2 ? [h("pre", h("code", piece.trimEnd()))] : paragraphs(piece)));

function paragraphs(text) {
  const found = [];
  let isOver = true;
  for (const line of text.split("\n")) {
    const [, mark, entry] = line.match(/^\s*([-*]|\d{1,3}[.)]) +(.*)/) ?? [];
    const kind = mark ? (/\d/.test(mark) ? "ol" : "ul") : "p";
    const last = found.at(-1);
    if (!line.trim()) isOver = true;
    else if (mark && last?.kind === kind) last.lines.push(entry);
    else if (mark) found.push({ kind, lines: [entry], start: parseInt(mark, 10) || 1 });
    // A line that goes on, of a paragraph or of the entry above.
    else if (last && (!isOver || (last.kind !== "p" && /^\s{2}/.test(line)))) last.lines.push(`${last.lines.pop()}\n${line.trim()}`);
    else found.push({ kind, lines: [line] });
    if (line.trim()) isOver = false;
  }
  return found.map(({ kind, lines, start }) => (kind === "p" ? h("p", prose(lines[0])) : h(`${kind}.bullets`, { start: start > 1 && start }, lines.map((line) => h("li", prose(line))))));
}

/** What the server says, with its times as the reader's. */
export const told = (text) => prose(String(text ?? "").replace(/\b\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)? UTC\b/g, (at) => moment(at.replace(" UTC", "Z").replace(" ", "T"))));

export const matches = (filter, ...texts) => !filter || texts.some((text) => String(text ?? "").toLowerCase().includes(filter));

export const words = (code) => String(code ?? "").replaceAll("_", " ");

/** Reason codes as readable text; codes without an entry are shown as they are. */
const REASONS = {
  first_seen: "new", content_changed: "text changed", carried_over: "waiting for its analysis", retry_due: "retry is due",
  retry_requested: "retry requested", same_fingerprint: "analysed, unchanged since", baseline: "existed before the first run", own_write_back: "only heartbeat's own comment is new",
  max_items_per_run: "limit of items per run reached", max_deep_per_run: "limit of analyses per run reached", max_live_sessions: "all session slots were in use", machine_sessions: "all session slots of this machine were in use",
  load: "machine load too high", memory: "not enough free memory", processes: "too many processes", budget: "budget reached", provider_limit: "provider limit reached",
  run_deadline: "run deadline reached", shutdown: "heartbeat was stopped", triage_failed: "triage failed", no_verdict: "triage gave no verdict",
  backoff: "failed, waiting for retry", attempts_exhausted: "no attempts left", for_a_person: "triage: needs a person", not_needed: "triage: no deep analysis needed",
  agent_broken: "the agent's program does not work", fails_alike: "several items failed alike", cut_off: "its session was cut off; not counted", fails_triage: "triage fails because of this item alone",
  deleted: "deleted or not readable", out_of_query: "no longer matches the query", in_flight: "a session is running",
};
/** How far a finding is proven. */
export const PROOFS = { unproven: "not proven", cited: "quotes confirmed", applies: "patch applies", builds: "patch builds", reproduced: "bug reproduced" };
export const proofOf = (row) => PROOFS[row.proof] ?? "not checked";
export const STATES = { done: "done", settled: "settled by triage", queued: "queued", failed: "failed, to be retried", parked: "parked", gone: "gone" };
export const STATE_TONES = { done: "good", settled: "good", queued: "info", failed: "warn", parked: "bad" };
export const because = (reason) => REASONS[reason] ?? words(reason);
/** An address keeps its form. */
export const capital = (word) => /^\w+:\/\//.test(word) ? word : word.charAt(0).toUpperCase() + word.slice(1);
/** How a run ended. */
export const outcomeName = (outcome) => ({ not_now: "not possible now", some_failed: "some analyses failed" })[outcome] ?? words(outcome);
export const stageName = (stage) => (stage === "deep" ? "analysis" : words(stage));
export const phaseName = (phase) => ({ claimed: "in progress", pending: "queued" })[phase] ?? words(phase);
/** The trackers' own names, such as PARCEL-4, by key and by the printed key; learned from every answer. */
const names = new Map();
export function learn(value) {
  if (!value || typeof value !== "object") return value;
  const key = typeof value.key === "string" ? value.key : value.item;
  if (typeof value.name === "string" && typeof key === "string" && key.includes("/")) {
    names.set(key, value.name);
    names.set(printed(key), value.name);
  }
  for (const each of Object.values(value)) if (each && typeof each === "object") learn(each);
  return value;
}

/** The item's name; without one `web/123` is `web#123`, and the default name of a source is omitted. */
export const short = (key) => (key ? names.get(key) ?? printed(key) : "");
const printed = (key) => {
  const at = key.lastIndexOf("/");
  const source = key.slice(0, Math.max(at, 0));
  return `${source === "ado" ? "" : source}#${key.slice(at + 1)}`;
};
export const size = (bytes) => (bytes < 1e3 ? `${bytes} bytes` : bytes < 1e6 ? `${Math.floor(bytes / 1e3)} kB` : bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(1)} GB`);
/** Whole cents with two digits, less with three. */
export const dollars = (amount = 0) => amount > 0 && amount < 0.0005 ? "<$0.001" : `$${amount.toFixed(Math.abs(amount * 100 - Math.round(amount * 100)) < 1e-6 || amount >= 1 ? 2 : 3)}`;
// An amount, with its estimated part.
export const partly = (amount = 0, estimated = 0) => `${dollars(amount)}${!estimated ? "" : estimated >= amount ? " (estimated)" : ` (${dollars(estimated)} of it estimated)`}`;
// The cost of a session; rows of earlier versions have 0 if nothing was reported.
// Money as the ledger has it: the same words as on the command line.
export const booked = (money) => [`${dollars(money.billed)} billed${partly(money.billed, money.estimated).slice(dollars(money.billed).length)}`, money.assumed > 0 && `${dollars(money.assumed)} assumed`, money.reserved > 0 && `${dollars(money.reserved)} reserved`].filter(Boolean).join(", ");
export const spent = ({ cost, estimated, reported }) => cost === null || (!reported && !estimated && !cost) ? "not reported" : `${dollars(cost)}${estimated ? " (estimated)" : ""}`;
export const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

export function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m ${String(s % 60).padStart(2, "0")} s`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, "0")} m`;
  return `${Math.floor(s / 86400)} d`;
}

/** A finished duration; short ones to a tenth of a second. */
export const lasted = (ms) => (ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : span(ms));

const timeOnly = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dateAndTime = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const thisYear = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "numeric", minute: "2-digit" });
export const clock = (at) => timeOnly.format(new Date(at));
export const moment = (at) => (new Date(at).getFullYear() === new Date().getFullYear() ? thisYear : dateAndTime).format(new Date(at));

/** A revision, or the time of the last change if the tracker has no counter. */
export const version = (revision) => (revision >= 1e12 ? `version of ${moment(revision)}` : `revision ${revision}`);

export const ending = (outcome, host) => {
  if (!outcome) return "running";
  const why = outcome.kind === "orphaned" && host ? `host ${host} was lost` : words(outcome.why);
  return words(outcome.kind) + (why ? ` (${why})` : "");
};
