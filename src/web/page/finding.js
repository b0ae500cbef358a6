// One item: its findings in full, its sessions and its events.
import { because, clock, h, isPage, link, moment, phaseName, prose, short, size, untimed, version, words } from "./dom.js";
import { sessionTable } from "./run.js";

const grade = (tone, text) => h("span.tag", { "data-tone": tone }, text);
const toneOf = { low: "good", medium: "warn", high: "bad" };

export function story(data, act) {
  const { item, findings, sessions } = data;
  const can = ["waiting", "parked", "done"].includes(item.phase);
  return [
    h("div.bar", h("h2", { id: "story-title" }, h("span.number", short(item.key)), ` ${item.title}`), h("button", { onclick: act.close }, "Close")),
    h("div.inside",
      h("div.tags", grade(undefined, item.item_type), grade("info", phaseName(item.phase)), grade(undefined, because(item.reason)), grade(undefined, version(item.revision))),
      h("div.row", isPage(item.url) && link(item.url, "Open the work item"), " ", can && h("button", { onclick: (event) => act.retry(item.key, event.target) }, "Analyse again")),
      data.alarm && h("p.alarm-box", { role: "note" }, h("strong", "Hidden text: "), `${data.alarm}. It was removed from the prompt or marked; check the work item's source before you trust it.`),
      item.verdict && part("Triage", h("p.prose", `${words(item.verdict.complexity)}, ${item.verdict.needs_deep_analysis ? "deep analysis" : "no deep analysis"}: `, prose(item.verdict.reason))),
      data.rule && part("Rule", h("p.prose", `${data.rule.rule}: ${data.rule.changes}`)),
      data.duplicates?.items.length > 0 && duplicates(data.duplicates, item.key),
      data.surroundings && around(data.surroundings),
      findings.length ? findings.map((row, index) => finding(row, index === 0 && act.feedback, item.key)) : h("p.empty", "No findings yet."),
      sessions.length > 0 && part("Sessions", sessionTable(sessions)),
      part("History", h("ol.lines", { tabindex: "0", "aria-label": "Events of this item" }, data.story.map((line) => h("li", h("time", { datetime: line.at }, clock(line.at)), h("span", untimed(line.line)))))),
    ),
  ];
}

/** Linked items, commits and pull requests, and how attached files were used. */
function around(read) {
  const name = (item) => item.handle ?? (item.id === null ? item.url : `#${item.id}`);
  const items = read.items.map((item) => h("li", grade(undefined, words(item.kind)), " ", link(item.url, h("span.number", name(item)), ` ${item.title ?? "cannot be read"}`), item.state && h("span.number", ` ${item.state}`)));
  const changes = read.changes.map((change) => h("li", grade(undefined, words(change.kind)), " ", h("code", change.id.slice(0, 10)), ` ${change.title || "cannot be read"}`, change.state && h("span.number", ` ${change.state}`), touched(change.files)));
  const files = read.files.map((file) => h("li", h("code", file.name || "(no name)"), file.size ? h("span.number", ` ${size(file.size)}`) : "", h("div.prose", file.fate)));
  const more = read.left_out > 0 && h("li", `and ${read.left_out} more links`);
  return [
    items.length + changes.length > 0 && part("Links", h("ul.bullets", items, changes, more)),
    files.length > 0 && part("Attached files", h("ul.bullets.files", files)),
  ];
}

/** The first files that a change touched. */
function touched(files) {
  const shown = files.slice(0, 5).join(", ");
  const more = files.length - 5;
  return files.length > 0 && h("div.prose", `touched ${shown}${more > 0 ? ` and ${more} more` : ""}`);
}

/** Items that report the same problem according to triage, each with a link to its page. */
function duplicates(group, own) {
  const others = group.items.filter((item) => item.key !== own);
  const more = group.total - group.items.length;
  const why = group.items.find((item) => item.key === own)?.why;
  return part("Likely duplicates", why && h("p.prose", "Triage on this item: ", prose(why)), h("ul.bullets", others.map((item) => h("li", h("a", { href: `#item/${item.key}` }, `${short(item.key)} ${item.title}`), ` (${phaseName(item.phase)})`, item.why && h("div.prose", prose(item.why)))), more > 0 && h("li", `and ${more} more`)));
}

/** The commits that are not named. */
const beyond = (stale) => (stale.total > stale.commits.length ? ` and ${stale.total - stale.commits.length} more` : "");

const part = (title, ...content) => h("section", h("h3", title), ...content);

function finding(row, feedback, key) {
  const found = row.finding;
  return h("article.found",
    h("div.tags", grade(toneOf[found.risk], `${found.risk} risk`), grade(undefined, `${found.effort} effort`), grade(undefined, `${found.confidence} confidence`), grade(undefined, moment(row.created_at)), grade(undefined, version(row.revision))),
    row.stale && h("p.alarm-box", { role: "note" }, h("strong", "Files changed after this finding, by: "), row.stale.commits.map((commit) => `${commit.id.slice(0, 10)} ${commit.subject}`).join(", "), beyond(row.stale), ` (${row.stale.files.join(", ")})`),
    h("p.prose", prose(found.summary)),
    found.likely_causes.length > 0 && part("Likely causes", h("ol.bullets", found.likely_causes.map((cause) => h("li", prose(cause))))),
    found.files.length > 0 && part("Files", h("ul.bullets.files", found.files.map((file) => h("li", h("code", file.path), file.exists === false ? " — not in the repository" : "", h("div.prose", prose(file.reason)))))),
    found.suggested_change && part("Suggested change", h("p.prose", prose(found.suggested_change))),
    found.open_questions.length > 0 && part("Open questions", h("ul.bullets", found.open_questions.map((question) => h("li", prose(question))))),
    row.fix && part("The fix", h("p.prose", `Fixed on ${moment(row.fix.fixed_at)}; the finding names ${row.fix.hits} of ${row.fix.changed.length} changed ${row.fix.changed.length === 1 ? "file" : "files"}.`)),
    feedback && opinions(row, feedback, key));
}

/** Feedback on the newest finding; stored with it. */
function opinions(row, feedback, key) {
  const given = row.feedback?.opinion ?? row.feedback;
  const said = h("span.note", { role: "status" }, given ? `Marked as ${given}.` : "");
  const note = h("input", { type: "text", "aria-label": "Note, optional", placeholder: "Note (optional)", maxlength: "500" });
  note.value = row.feedback?.note ?? "";
  const buttons = ["useful", "wrong", "done"].map((opinion) => h("button", { "aria-pressed": String(given === opinion), onclick: async () => {
    if (!(await feedback(key, opinion, note.value))) return;
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.textContent === opinion));
    said.textContent = `Marked as ${opinion}.`;
  } }, opinion));
  return part("Was it useful?", h("div.opinions", { role: "group", "aria-label": "Feedback on this finding" }, ...buttons, note, said));
}

export const missing = (key, message, close) => [
  h("div.bar", h("h2", { id: "story-title" }, short(key)), h("button", { onclick: close }, "Close")),
  h("div.inside", h("p.empty", message)),
];
export const waiting = (key, close) => missing(key, "Loading…", close);
