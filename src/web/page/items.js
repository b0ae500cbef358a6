// All known items: filters by state, reason and words, and the list.
import { STATES, STATE_TONES, because, h, itemPath, moment, plural, prose, short } from "./dom.js";

/** Parses an address such as `/items?state=parked&q=cart`. */
export function asked(search) {
  const given = new URLSearchParams(search);
  return { state: given.get("state") ?? "", reason: given.get("reason") ?? "", q: given.get("q") ?? "", sort: given.get("sort") ?? "" };
}

export const query = (wanted) => String(new URLSearchParams(Object.entries(wanted).filter(([, value]) => value)));
const address = (wanted) => (query(wanted) ? `/items?${query(wanted)}` : "/items");
const sum = (facets) => facets.reduce((total, facet) => total + facet.count, 0);
const tag = (tone, text) => h("span.tag", { "data-tone": tone }, text);

/** One line for the filter of the first page. */
export function matching(found, q) {
  const states = Object.keys(STATES).map((state) => [state, sum(found.facets.filter((facet) => facet.state === state))]).filter(([, count]) => count);
  return found.total
    ? h("a", { href: address({ q }) }, `${plural(found.total, "item")} in all: ${states.map(([state, count]) => `${count} ${STATES[state]}`).join(", ")}`)
    : h("span", "No known item matches.");
}

export function show(dialog, list, wanted, act) {
  const typing = dialog.querySelector(".words input");
  if (typing && document.activeElement === typing) return renew(dialog, list, wanted, act);
  let soon = null;
  const words = h("input", { type: "search", "aria-label": "Words in title, type, area or triage's explanation", placeholder: "Words in title, area, reason", oninput: () => {
    clearTimeout(soon);
    soon = setTimeout(() => act.go(address({ ...asked(location.search), q: words.value.trim() })), 200);
  } });
  words.value = wanted.q;
  dialog.replaceChildren(h("div.bar", h("h2", { tabindex: "-1" }, "Items")), h("div.inside", h("label.words", words), h("nav.facets", { "aria-label": "State" }), h("nav.facets", { "aria-label": "Reason" }),
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
  rows.replaceChildren(...list.items.map((item) => row(item)));
  const more = dialog.querySelector(".more");
  const left = () => { more.hidden = rows.children.length >= list.total; };
  more.onclick = async () => {
    const first = rows.children.length;
    const next = await act.load(first).catch(() => ({ items: [] }));
    rows.append(...next.items.map((item) => row(item)));
    rows.children[first]?.querySelector("a").focus();
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

function row(item) {
  const facts = [item.item_type, because(item.reason), item.attempts ? plural(item.attempts, "attempt") : null, `changed ${moment(item.last_changed)}`];
  return h("li",
    h("div.row", h("div.title", h("a.plain", { href: itemPath(item.key) }, h("span.number", short(item.key)), ` ${item.title}`)), item.alarm && tag("bad", "hidden text"), tag(STATE_TONES[item.state], STATES[item.state])),
    item.summary ? h("p", prose(item.summary)) : item.triage && h("p", item.state === "settled" ? "Settled: " : "Triage asks: ", prose(item.triage)),
    item.alarm && h("p", `Hidden text: ${item.alarm}`),
    h("div.facts", facts.filter(Boolean).map((fact) => h("span", fact))));
}
