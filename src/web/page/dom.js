// Elements and words. Text from outside only ever becomes a text node; there is no markup from strings.

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

export const byId = (id) => document.getElementById(id);

/** Sets text only if it differs, so that nothing is read aloud twice and no selection is lost. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function mark(element, name, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

/** A list kept in step with data: elements stay, so that focus stays. */
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

/** Only addresses that a browser opens as a page become links. */
export function link(address, ...content) {
  let safe = null;
  try {
    const url = new URL(address);
    if (url.protocol === "https:" || url.protocol === "http:") safe = url.href;
  } catch { /* No address, no link. */ }
  return safe
    ? h("a", { href: safe, target: "_blank", rel: "noopener noreferrer" }, ...content)
    : h("span", ...content);
}

export const words = (code) => String(code ?? "").replaceAll("_", " ");

/** Why an item stands where it stands, for people; codes that are words already stay. */
const REASONS = {
  first_seen: "seen for the first time", content_changed: "its text changed", carried_over: "left over from an earlier run", retry_due: "its next attempt is due",
  retry_requested: "put back in line", same_fingerprint: "unchanged since then", baseline: "there before the first run", own_write_back: "only our own comment is new",
  max_items_per_run: "beyond the items of one run", max_deep_per_run: "beyond the analyses of one run", max_live_sessions: "all session slots were taken",
  load: "the machine was busy", memory: "too little memory was free", processes: "too many processes were alive", budget: "beyond the budget", provider_limit: "the provider took no more work",
  run_deadline: "the run reached its time limit", shutdown: "heartbeat was stopped", triage_failed: "its triage failed", no_verdict: "triage gave no verdict",
  backoff: "failed, waits for its next attempt", attempts_exhausted: "out of attempts", for_a_person: "left to a person by triage", not_needed: "needs no deep analysis",
  deleted: "no longer readable", out_of_query: "no longer asked for", in_flight: "a session is at work",
};
export const because = (reason) => REASONS[reason] ?? words(reason);
export const phaseName = (phase) => (phase === "claimed" ? "in work" : words(phase));
export const short = (key) => (key ? `#${key.slice(key.lastIndexOf("/") + 1)}` : "");
/** Whole cents with two digits, less with three. */
export const dollars = (amount = 0) => `$${amount.toFixed(Math.abs(amount * 100 - Math.round(amount * 100)) < 1e-6 || amount >= 1 ? 2 : 3)}`;
export const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

export function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m ${String(s % 60).padStart(2, "0")} s`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, "0")} m`;
  return `${Math.floor(s / 86400)} d`;
}

/** A duration that is over; short ones to a tenth. */
export const lasted = (ms) => (ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : span(ms));

const timeOnly = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dateAndTime = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const thisYear = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "numeric", minute: "2-digit" });
export const clock = (at) => timeOnly.format(new Date(at));
export const moment = (at) => (new Date(at).getFullYear() === new Date().getFullYear() ? thisYear : dateAndTime).format(new Date(at));

/** The outcome of a session in words. */
export const ending = (outcome) => outcome ? words(outcome.kind) + (outcome.why ? ` (${words(outcome.why)})` : "") : "alive";
