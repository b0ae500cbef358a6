// One item: its findings in full, its sessions and its events.
import { PROOFS, because, blocks, capital, clock, findingPath, h, isPage, itemPath, link, matches, moment, phaseName, plural, proofOf, prose, sessionPath, short, size, told, untimed, version, words } from "./dom.js";
import { sessionTable } from "./run.js";

const grade = (tone, text) => h("span.tag", { "data-tone": tone }, text);

export function story(data, act) {
  const { item, findings, sessions } = data;
  const can = act.may && ["waiting", "parked", "done"].includes(item.phase);
  return [
    h("div.bar", h("h2", { tabindex: "-1" }, h("span.number", short(item.key)), ` ${item.title}`), can && h("button", { onclick: (event) => act.retry(item.key, event.target) }, "Analyse again")),
    h("div.inside",
      h("div.tags", grade(undefined, item.item_type), grade("info", phaseName(item.phase)), !findings.length && grade(undefined, because(item.reason)), item.area_path && grade(undefined, item.area_path), item.assigned_to && grade(undefined, item.assigned_to), grade(undefined, version(item.revision)), isPage(item.url) && link(item.url, "Open the work item")),
      data.alarm && h("p.alarm-box", { role: "note" }, h("strong", "Hidden text: "), `${data.alarm}. It was removed from the prompt or marked; check the work item's source before you trust it.`),
      data.suggested?.length > 0 && suggested(data.suggested),
      findings.length ? findings.map((row, index) => finding(row, index === 0 && act, item.key)) : why(data),
      // Without a finding, why there is none says what triage said.
      item.verdict && (findings.length > 0 || item.verdict.needs_deep_analysis) && part("Triage", h("p.prose", `${words(item.verdict.complexity)}, ${item.verdict.needs_deep_analysis ? "deep analysis" : "no deep analysis"}: `, prose(item.verdict.reason))),
      data.rule && part("Rule", h("p.prose", `${data.rule.rule}: ${data.rule.changes}`)),
      data.duplicates?.items.length > 0 && duplicates(data.duplicates, item.key),
      data.surroundings && around(data.surroundings),
      sessions.length > 0 && part("Sessions", sessionTable(sessions)),
      part("History", h("ol.lines", { tabindex: "0", "aria-label": "Events of this item" }, data.story.map((line) => h("li", h("time", { datetime: line.at }, `${moment(line.at)}`), h("span", untimed(line.line)))))),
    ),
  ];
}

/** Why there is no finding. */
const why = (data) => (data.why ? part("Why there is no finding", h("p.prose", told(data.why))) : h("p.empty", "No findings yet."));

/** The page of one finding; feedback is for the newest of its item. */
export function findingPage(row, item, next, act) {
  const newest = item.findings[0]?.session === row.session;
  return [
    h("div.bar", h("h2", { tabindex: "-1" }, h("span.number", short(row.key)), ` ${row.title}`)),
    h("div.inside",
      handOn(row, act),
      !newest && h("p.alarm-box", { role: "note" }, "There is a newer finding about this item: ", h("a", { href: findingPath(item.findings[0]?.session) }, moment(item.findings[0]?.created_at))),
      finding(row, newest && act, row.key),
      next ? h("p.next", h("a", { href: findingPath(next.session) }, "Next to read: ", h("span.number", short(next.key)), ` ${next.title}`)) : h("p.next.note", "That was the last unread finding. ", h("a", { href: "/findings" }, "All findings"))),
  ];
}

/** One finding for others: for an agent, as a file, or as a link that opens nothing else. */
function handOn(row, act) {
  const said = h("span.note", { role: "status" });
  return h("div.row.links", h("a", { href: itemPath(row.key) }, "Item and its history"), h("a", { href: sessionPath(row.session) }, "Session"), isPage(row.url) && link(row.url, "Open the work item"),
    h("a", { href: `/api/report?finding=${row.session}&format=html`, download: "" }, "Save as file"),
    h("button", { onclick: () => act.brief(row.session, said) }, "Copy as a task for an agent"), act.may && h("button", { onclick: () => act.share(row.session, said) }, "Share a link"), said);
}

const tones = { high: "bad", medium: "warn", low: "good" };

/** One finding in a list. */
export const findingRow = (row, seen) => h(seen ? "li.seen" : "li",
  h("div.row", !seen && h("span.unread", { title: "unread" }, h("span.hidden", "unread")), h("div.title", h("a.plain", { href: findingPath(row.session) }, h("span.number", short(row.key)), ` ${row.title}`)),
    h("div.graded", grade(tones[row.risk], `${row.risk} risk`), grade(undefined, `${row.effort} effort`))),
  h("p", prose(row.summary)),
  h("div.facts", h("span", moment(row.created_at)), h("span", plural(row.files, "file")), h("span", `${row.confidence} confidence`), h("span", proofOf(row)), row.area && h("span", row.area), row.feedback && h("span", `marked as ${row.feedback.opinion}`), row.fix && h("span", "fixed")));

/** Filters that are folded away until one is in use. */
const NARROWED = ["proof", "area", "person"];

/** All findings with filters; `asked` is the address's query, `typed` what the header's field holds. */
export function findingsPage(rows, asked, typed, isSeen) {
  const given = Object.fromEntries(new URLSearchParams(asked));
  const to = (more) => { const next = new URLSearchParams(Object.entries({ ...given, ...more }).filter(([, value]) => value)); return String(next) ? `/findings?${next}` : "/findings"; };
  const choice = (name, value, text) => h("a", { href: to({ [name]: value }), "aria-current": (given[name] ?? "") === value && "true" }, text);
  const fits = (row) => NARROWED.concat("risk").every((name) => !given[name] || row[name] === given[name]) && matches(typed, short(row.key), row.title, row.summary, row.area) && (given.show !== "unread" || !isSeen(row));
  /** The values that the rows have, if there is a choice. */
  const facet = (name, label, any) => {
    const values = [...new Set(rows.map((row) => row[name]).filter(Boolean))].sort();
    return (values.length > 1 || given[name]) && h("nav.facets", { "aria-label": label }, choice(name, "", any), values.map((value) => choice(name, value, name === "proof" ? PROOFS[value] ?? words(value) : value)));
  };
  const shown = rows.filter(fits);
  return [
    h("div.bar", h("h2", { tabindex: "-1" }, "Findings")),
    h("div.inside",
      h("div.filters", h("nav.facets", { "aria-label": "Read" }, choice("show", "", `all ${rows.length}`), choice("show", "unread", `${rows.filter((row) => !isSeen(row)).length} unread`)),
        h("nav.facets", { "aria-label": "Risk" }, choice("risk", "", "any risk"), ["high", "medium", "low"].map((risk) => choice("risk", risk, `${rows.filter((row) => row.risk === risk).length} ${risk}`)))),
      h("details.narrow", { open: NARROWED.some((name) => given[name]) }, h("summary", "Filter by area, person or evidence"),
        facet("area", "Area", "any area"), facet("person", "Assigned to", "anybody's"), facet("proof", "Evidence", "any evidence")),
      h("p.note", { role: "status" }, shown.length ? `${plural(shown.length, "finding")}${typed ? ` with "${typed}"` : ""}, the most worthwhile first` : "No finding matches."),
      h("ul.list", shown.map((row) => findingRow(row, isSeen(row))))),
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
  return part("Likely duplicates", why && h("p.prose", "Triage on this item: ", prose(why)), h("ul.bullets", others.map((item) => h("li", h("a", { href: itemPath(item.key) }, `${short(item.key)} ${item.title}`), ` (${phaseName(item.phase)}${item.live ? ", the one to keep" : ""})`, item.why && h("div.prose", prose(item.why)))), more > 0 && h("li", `and ${more} more`)));
}

/** Values that triage suggests for the item's fields, each with how often such values were right. */
const suggested = (rows) => h("section.advice", h("h3", "Suggested by triage"), h("dl.suggested", rows.flatMap((row) => [h("dt", capital(row.name)), h("dd", h("strong", prose(row.value)), row.note && h("span.note", row.note))])));

/** The commits that are not named. */
const beyond = (stale) => (stale.total > stale.commits.length ? ` and ${stale.total - stale.commits.length} more` : "");

const part = (title, ...content) => h("section", h("h3", title), ...content);

/** How each shape of a part is shown. The server defines fields, order and words. */
const SHAPES = {
  text: (text) => h("div.prose", blocks(text)),
  list: (texts) => h("ul.bullets", texts.map((text) => h("li", told(text)))),
  ranked: (texts) => h("ol.bullets", texts.map((text) => h("li", prose(text)))),
  places: (places) => h("ul.bullets.files", places.map((place) => h("li", link(place.address, h("code", place.line ? `${place.path}:${place.line}${place.last_line ? `-${place.last_line}` : ""}` : place.path)), place.notes.map((note) => h("span.number", ` (${note})`)), h("div.prose", blocks(place.text)), place.quote && h("pre", h("code", place.quote))))),
  /** Rows of the list beside the text. */
  grades: (grades) => grades.map((each) => [capital(each.name), grade(each.tone || undefined, each.name === "proof" ? proofOf({ proof: each.value }) : each.value)]),
  code: (text) => h("pre.diff", { tabindex: "0" }, h("code", text.split("\n").map((line) => h(`span${DIFF.find(([form]) => form.test(line))?.[1] ?? ""}`, `${line}\n`)))),
};
const DIFF = [[/^(diff|index|---|\+\+\+) /, ".name"], [/^@@/, ".place"], [/^\+/, ".added"], [/^-/, ".removed"]];

/** The summary needs no heading. */
const shown = ({ title, shape, body }) => (title ? part(title, SHAPES[shape](body)) : SHAPES[shape](body));

function finding(row, act, key) {
  const grades = row.parts.find(({ shape }) => shape === "grades")?.body ?? [];
  const facts = [...SHAPES.grades(grades),
    ["Priority", row.priority], ["Area", row.area], ["Assigned to", row.assigned_to], ["Found", moment(row.created_at)], ["On", version(row.revision)]].filter(([, value]) => value);
  return h("article.found",
    h("dl.properties", facts.map(([name, value]) => h("div", h("dt", name), h("dd", value)))),
    h("div.text", row.stale && h("p.alarm-box", { role: "note" }, h("strong", "Files changed after this finding, by: "), row.stale.commits.map((commit) => `${commit.id.slice(0, 10)} ${commit.subject}`).join(", "), beyond(row.stale), ` (${row.stale.files.join(", ")})`),
    row.parts.filter(({ shape }) => shape !== "grades").map(shown),
    row.fix && part("The fix", h("p.prose", `Fixed on ${moment(row.fix.fixed_at)}; the finding names ${row.fix.hits} of ${row.fix.changed.length} changed ${row.fix.changed.length === 1 ? "file" : "files"}.`)),
    act?.may && opinions(row, act.feedback, key)));
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

export const missing = (title, message) => [
  h("div.bar", h("h2", { tabindex: "-1" }, title)),
  h("div.inside", h("p.empty", message)),
];
