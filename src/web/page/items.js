// All known items: filters by state, reason and words, and the list.
import { STATES, STATE_TONES, because, h, moment, plural, prose, short } from "./dom.js";

/** Parses an address such as `#/items?state=parked&q=cart`. */
export function asked(hash) {
  const given = new URLSearchParams(hash.split("?")[1] ?? "");
  return { state: given.get("state") ?? "", reason: given.get("reason") ?? "", q: given.get("q") ?? "", sort: given.get("sort") ?? "" };
}

export const query = (wanted) => String(new URLSearchParams(Object.entries(wanted).filter(([, value]) => value)));
const address = (wanted) => (query(wanted) ? `#/items?${query(wanted)}` : "#/items");
const sum = (facets) => facets.reduce((total, facet) => total + facet.count, 0);
const tag = (tone, text) => h("span.tag", { "data-tone": tone }, text);

/** One line for the filter of the first page. */
export function matching(found, q) {
  const states = Object.keys(STATES).map((state) => [state, sum(found.facets.filter((facet) => facet.state === state))]).filter(([, count]) => count);
  return found.total
    ? h("a", { href: address({ q }) }, `${plural(found.total, "item")} in all: ${states.map(([state, count]) => `${count} ${STATES[state]}`).join(", ")}`)
    : h("span", "No known item matches.");
}

export const failed = (message, close) => [bar("Items", close), h("div.inside", h("p.empty", message))];
const bar = (title, close) => h("div.bar", h("h2", { id: "items-title" }, title), h("button", { onclick: close }, "Close"));

export function show(dialog, list, wanted, act) {
  const typing = dialog.querySelector("input");
  if (typing && document.activeElement === typing) return renew(dialog, list, wanted, act);
  let soon = null;
  const words = h("input", { type: "search", "aria-label": "Words in title, type, area or triage's explanation", placeholder: "Words in title, area, reason", oninput: () => {
    clearTimeout(soon);
    soon = setTimeout(() => act.go(address({ ...asked(location.hash), q: words.value.trim() })), 200);
  } });
  words.value = wanted.q;
  dialog.replaceChildren(bar("Items", act.close), h("div.inside", h("label.words", words), h("nav.facets", { "aria-label": "State" }), h("nav.facets", { "aria-label": "Reason" }),
    h("div.row", h("p.note", { role: "status" }), h("nav.facets", { "aria-label": "Sort" }), h("button.requeue")), h("ul.list"), h("button.more", "Show more")));
  renew(dialog, list, wanted, act);
}

/** Renders everything except the input field in use. */
function renew(dialog, list, wanted, act) {
  const [states, reasons, sorts] = dialog.querySelectorAll("nav");
  const choice = (is, to, text) => h("a", { href: address(to), "aria-current": is && "true" }, text);
  const { q, sort } = wanted;
  states.replaceChildren(choice(!wanted.state, { q, sort }, `all ${sum(list.facets)}`),
    ...Object.keys(STATES).map((state) => [state, sum(list.facets.filter((facet) => facet.state === state))]).filter(([state, count]) => count || state === wanted.state)
      .map(([state, count]) => choice(state === wanted.state, { state, q, sort }, `${count} ${STATES[state]}`)));
  const fitting = list.facets.filter((facet) => !wanted.state || facet.state === wanted.state);
  const codes = [...new Set(fitting.map((facet) => facet.reason))];
  reasons.hidden = codes.length < 2 && !wanted.reason;
  reasons.replaceChildren(choice(!wanted.reason, { state: wanted.state, q, sort }, "any reason"), ...codes.map((reason) =>
    choice(reason === wanted.reason, { state: wanted.state, reason, q, sort }, `${sum(fitting.filter((facet) => facet.reason === reason))} ${because(reason)}`)));
  dialog.querySelector("[role=status]").textContent = list.total ? `${plural(list.total, "item")}, sorted by` : "No item matches.";
  sorts.hidden = list.total < 2;
  sorts.replaceChildren(...Object.entries({ "": "last change", number: "number", attempts: "attempts" }).map(([name, text]) => choice(name === sort, { ...wanted, sort: name }, text)));
  requeue(dialog.querySelector(".requeue"), list.total, wanted, act);
  const rows = dialog.querySelector("ul.list");
  rows.replaceChildren(...list.items.map((item) => row(item, act)));
  const more = dialog.querySelector(".more");
  const left = () => { more.hidden = rows.children.length >= list.total; };
  more.onclick = async () => {
    const first = rows.children.length;
    const next = await act.load(first).catch(() => ({ items: [] }));
    rows.append(...next.items.map((item) => row(item, act)));
    rows.children[first]?.querySelector("button").focus();
    left();
  };
  left();
}

/** Requeues all listed items after a confirmation with their number. */
function requeue(old, count, wanted, act) {
  const text = `Requeue ${count === 1 ? "this item" : `these ${count} items`}`;
  const button = h("button.requeue", text);
  button.hidden = !count || !["done", "settled", "failed", "parked"].includes(wanted.state);
  button.onclick = () => {
    if (button.classList.contains("sure")) {
      button.disabled = true;
      return act.retryMany(count);
    }
    button.classList.add("sure");
    button.textContent = `Really requeue ${plural(count, "item")}? Each is triaged again, which costs money.`;
    setTimeout(() => { if (!button.disabled) { button.classList.remove("sure"); button.textContent = text; } }, 8000);
  };
  old.replaceWith(button);
}

function row(item, act) {
  const facts = [item.item_type, because(item.reason), item.attempts ? plural(item.attempts, "attempt") : null, `changed ${moment(item.last_changed)}`];
  return h("li",
    h("div.row", h("div.title", h("button.plain", { onclick: () => act.open(item.key) }, h("span.number", short(item.key)), ` ${item.title}`)), item.alarm && tag("bad", "hidden text"), tag(STATE_TONES[item.state], STATES[item.state])),
    item.triage && h("p", "Triage: ", prose(item.triage)),
    item.alarm && h("p", `Hidden text: ${item.alarm}`),
    h("div.facts", facts.filter(Boolean).map((fact) => h("span", fact))));
}
