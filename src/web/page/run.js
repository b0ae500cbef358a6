// The pages of one run and of one session, and the figures by day and week.
import { because, booked, capital, clock, dollars, ending, findingPath, h, itemPath, lasted, moment, outcomeName, partly, plural, prose, runPath, sessionPath, short, span, stageName, svg, untimed, words } from "./dom.js";

const tag = (tone, text) => h("span.tag", { "data-tone": tone }, text);
const part = (title, ...content) => h("section", h("h3", title), ...content);
const bar = (title, ...more) => h("div.bar", h("h2", { tabindex: "-1" }, title), ...more);
const link = (address, text) => h("a", { href: address }, text);
const time = (row) => (row.ended_at ? lasted(Date.parse(row.ended_at) - Date.parse(row.started_at)) : "–");
const cell = (name, text) => h(name, ...(Array.isArray(text) ? text : [text]));

/** A scrollable table; columns whose name begins with a dot are numeric. */
function table(label, columns, rows) {
  const num = columns.map((name) => name.startsWith("."));
  return h("div.scroll", { tabindex: "0", role: "region", "aria-label": label }, h("table",
    h("thead", h("tr", columns.map((name, index) => h(num[index] ? "th.num" : "th", { scope: "col" }, name.replace(".", ""))))),
    h("tbody", rows.map((cells) => h("tr", cells.map((text, index) => cell(num[index] ? "td.num" : "td", text)))))));
}

const lines = (rows, label) => h("ol.lines", { tabindex: "0", "aria-label": label }, rows.map((row) =>
  h(/ALARM|SURVIVORS/.test(row.line) ? "li.alarm" : "li", h("time", { datetime: row.at }, clock(row.at)), h("span", untimed(row.line)))));

const STAGES = { fetch: "Fetch", triage: "Triage", analyse: "Analyse", result: "Result" };
const BECAME = { finding: ["good", "finding"], parked: ["bad", "parked"], failed: ["warn", "failed"], chosen: ["info", "for deep analysis"], settled: ["good", "settled"], deferred: [undefined, "deferred"], decided: [undefined, "no result"] };
const RUN_TONES = { completed: "good", nothing_new: "good", interrupted: "warn", some_failed: "warn", not_now: "warn" };

export function runPage(data, tools) {
  const { run, items, sessions, spending } = data;
  const state = run.ended_at ? outcomeName(run.outcome) : run.lost ? "crashed" : "in progress";
  const cost = spending.reduce((sum, row) => sum + row.spent, 0);
  const report = (format, text) => h("a", { href: `/api/report?run=${run.run}&format=${format}`, download: "" }, text);
  return [
    bar(`Run of ${moment(run.started_at)}`),
    h("div.inside",
      h("div.tags", tag(run.ended_at ? RUN_TONES[run.outcome] ?? "bad" : run.lost ? "bad" : "info", state), tag(undefined, run.trigger === "manual" ? "started manually" : "scheduled"),
        tag(undefined, run.ended_at ? `took ${time(run)}` : `since ${clock(run.started_at)}`), tag(undefined, dollars(cost)), tag(undefined, `id ${run.run.slice(0, 18)}`)),
      h("ol.stages", Object.entries(STAGES).map(([name, title]) => {
        const { state: is = "ahead", why } = run.stages?.[name] ?? {};
        return h("li.stage", { "data-is": is }, h("h3", title, h("span.is", is === "ahead" ? "not yet" : is)), h("div.full", why ?? STAGE_NOTES[name](run)));
      })),
      h("p.note", "Report: ", report("html", "HTML"), " · ", report("md", "Markdown"), " · ", report("json", "JSON")),
      part(`Items (${items.total})`, items.total ? h("ul.list", items.listed.map((item) => itemRow(item))) : h("p.empty", "This run made no decision about any item."),
        items.total > items.listed.length && h("p.note", `and ${items.total - items.listed.length} more`)),
      part(`Sessions (${sessions.length})`, sessions.length ? sessionTable([...sessions].sort((a, b) => Date.parse(a.started_at) - Date.parse(b.started_at)), run) : h("p.empty", "No session was started.")),
      spending.length > 0 && part("Cost", table("Cost by stage", ["Stage", ".Sessions", ".Billed", ".Assumed", ".Reserved"],
        spending.map((row) => [stageName(row.stage), String(row.sessions), partly(row.billed, row.estimated), dollars(row.assumed), dollars(row.reserved)]))),
      part("Log", data.older_lines > 0 && h("p.note", `The newest ${data.lines.length} lines; ${data.older_lines} older ones are in events.ndjson of the state folder.`),
        data.lines.length ? lines(data.lines, "Log of this run") : h("p.empty", "The log of this run was removed (older than state.keep_events)."))),
  ];
}

const figures = (run) => ({ ...(run.summary ?? {}), ...run });
const STAGE_NOTES = {
  fetch: (run) => `${plural(figures(run).fetched ?? 0, "item")} read`,
  triage: (run) => `${plural(figures(run).triaged ?? 0, "verdict")}`,
  analyse: (run) => `${plural(figures(run).analysed ?? 0, "finding")}`,
  result: (run) => outcomeName(run.outcome ?? "in progress"),
};

function itemRow(item) {
  const [tone, text] = BECAME[item.became] ?? [undefined, words(item.became)];
  const facts = [item.decision && item.decision !== "new" && words(item.decision), item.reason !== "first_seen" && item.became !== "finding" && item.reason && because(item.reason), item.detail];
  return h("li", h("div.row", h("div.title", h("a.plain", { href: item.finding ? findingPath(item.finding) : itemPath(item.key) }, h("span.number", short(item.key)), ` ${item.title}`)), tag(tone, text)),
    item.summary ? h("p", prose(item.summary)) : item.triage && h("p", item.became === "settled" ? "Settled: " : "Triage asks: ", prose(item.triage)), h("div.facts", [...new Set(facts.filter(Boolean))].map((fact) => h("span", fact))));
}

/** Sessions, each with a link to its page; those of one run with their place in it. */
export const sessionTable = (sessions, run) => table("Sessions", ["Started", "Stage", "Item", "Outcome", ...(run ? ["When in the run"] : []), ".Attempt", ".Duration", ".Cost"], sessions.map((row) => [
  link(sessionPath(row.session), [row.started_at, new Date()].map((at) => new Date(at).toDateString()).reduce((a, b) => a === b) ? clock(row.started_at) : moment(row.started_at)), stageName(row.stage), row.item ? h("div.cut", link(itemPath(row.item), short(row.item)), row.title && ` ${row.title}`) : "–",
  row.outcome || row.alive ? ending(row.outcome, row.host) : "crashed", ...(run ? [timeline(row, run)] : []), String(row.attempt), time(row), booked(row.money).replace(/ billed$/, "")]));

/** From when to when a session ran, within its run. */
function timeline(row, run) {
  const [from, to] = [Date.parse(run.started_at), Date.parse(run.ended_at ?? new Date().toISOString())];
  const share = (at) => Math.min(1, Math.max(0, (at - from) / Math.max(1, to - from))) * 160;
  const [begun, ended] = [Date.parse(row.started_at), Date.parse(row.ended_at ?? run.ended_at ?? new Date().toISOString())];
  const tone = row.outcome?.kind === "completed" ? "good" : row.outcome ? "bad" : "now";
  const label = `from ${lasted(begun - from)} to ${lasted(ended - from)} of ${lasted(to - from)}`;
  return svg("svg", { class: "timeline", viewBox: "0 0 160 12", preserveAspectRatio: "none", role: "img", "aria-label": label },
    svg("title", {}, label), svg("rect", { class: "whole", x: 0, y: 5, width: 160, height: 2 }), svg("rect", { class: tone, x: share(begun), y: 1, width: Math.max(2, share(ended) - share(begun)), height: 10, rx: 2 }));
}

const TRANSCRIPT = { said: "said", read: "read", tool: "tool", failed: "failed" };

function noTranscript({ ended_at, outcome, host }) {
  if (!ended_at) return host ? `What it reads and says is shown when host ${host} has sent it.` : "Nothing read or said yet.";
  if (outcome?.kind !== "orphaned") return "No transcript is stored; transcripts are kept for state.keep_events.";
  return `No transcript is stored: ${host ? `host ${host} was lost` : "heartbeat crashed"} before the session ended.`;
}

/** All runs, newest first. */
export const runsPage = (rows) => [bar("Runs"), h("div.inside", rows.length ? table("Runs", ["Started", "Outcome", ".Took", ".Read", ".Triaged", ".Findings", ".Cost"], rows.map((row) => [
  link(runPath(row.run), moment(row.started_at)), tag(row.ended_at ? RUN_TONES[row.outcome] ?? "bad" : "info", row.ended_at ? outcomeName(row.outcome) : "in progress"), time(row),
  String(row.summary?.fetched ?? "–"), String(row.summary?.triaged ?? "–"), String(row.summary?.analysed ?? "–"), row.summary ? partly(row.summary.cost, row.summary.cost_estimated) : "–"])) : h("p.empty", "No run yet."))];

/** The newest sessions. */
export const sessionsPage = (rows) => [bar("Sessions"), h("div.inside", rows.length ? sessionTable(rows) : h("p.empty", "No session yet."))];

export function sessionPage(data, tools) {
  const { session, life, transcript } = data;
  const { usage } = session;
  const facts = [
    ["Model", [life.model, life.agent_version && `agent ${life.agent_version}`].filter(Boolean).join(", ")],
    ["Cost", `${booked(session.money)}${life.worst_case ? ` of at most ${dollars(life.worst_case)}` : ""}`],
    ["Tokens", usage && `${usage.input_tokens} in, ${usage.output_tokens} out, ${usage.cache_read_tokens} from the cache`],
    ["Time", `${session.ended_at ? time(session) : span(Date.now() - Date.parse(session.started_at))}${life.limit_ms ? ` of ${span(life.limit_ms)}` : ""}`],
    ["Files read", life.files_read === null ? null : String(life.files_read)],
    ["Steps", Object.entries(life.steps).map(([what, count]) => `${count} × ${words(what)}`).join(", ")],
    ["Processes", life.most_processes ? `at most ${life.most_processes}, ${Math.round(life.most_memory_kib / 1024)} MiB` : null],
    ["Processes left", session.survivors === null ? null : String(session.survivors)],
    ["Host", session.host],
    ["Containment", session.tier?.replaceAll("+", " + ")],
  ].filter(([, text]) => text);
  const title = session.item ? `${short(session.item)} ${data.title ?? ""}` : "all changed items";
  return [
    bar(`${capital(stageName(session.stage))} of ${title}`, !session.ended_at && tools.stop),
    h("div.inside",
      h("div.tags", tag(session.outcome?.kind === "completed" ? "good" : session.outcome ? "warn" : "info", session.outcome || session.alive ? ending(session.outcome, session.host) : "crashed"),
        tag(undefined, `attempt ${session.attempt}`), tag(undefined, moment(session.started_at)), tag(undefined, `id ${session.session.slice(-8)}`)),
      h("p.note", link(runPath(session.run), "Run"), session.item && " · ", session.item && link(itemPath(session.item), "Item and finding")),
      !session.ended_at && h("p.now", { role: "status" }),
      h("dl.pairs", facts.map(([name, text]) => h("div", h("dt", name), h("dd", text)))),
      h("section.said", h("h3", session.ended_at ? "Transcript" : "What it reads and says"), transcript?.lines?.length
        ? h("ol.talk", { tabindex: "0", "aria-label": "What the session read and said" }, transcript.lines.map((line) =>
          h("li", { "data-kind": line.kind }, h("span.when", span(line.after_ms)), h("span.kind", TRANSCRIPT[line.kind] ?? line.kind), line.kind === "said" ? h("span.prose", prose(line.text)) : h("code", line.text))))
        : h("p.empty", noTranscript(session)),
        transcript?.left_out > 0 && h("p.note", `${transcript.left_out} lines in the middle are left out.`)),
      h("section.life", h("h3", "Liveness"), life.changes.length
        ? table("Verdict changes", ["At", "Verdict", "Evidence"], life.changes.map((change) => [clock(change.at), words(change.verdict), change.evidence]))
        : h("p.empty", "No liveness check is stored: the session has just started, or its events were removed (older than state.keep_events)."),
        h("p.note", `${plural(life.beats, "liveness check")} in all.`))),
  ];
}

/** The Monday of a day such as 2026-11-16. */
function monday(day) {
  const at = new Date(`${day}T00:00:00Z`);
  at.setUTCDate(at.getUTCDate() - ((at.getUTCDay() + 6) % 7));
  return at.toISOString().slice(0, 10);
}

const dayName = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", timeZone: "UTC" });
const named = (day) => dayName.format(new Date(`${day}T00:00:00Z`));

/** Sums by week, newest first. */
export function weeks(days) {
  const found = new Map();
  for (const day of days) {
    const week = monday(day.day);
    const sum = found.get(week) ?? { day: week, findings: 0, sessions: 0, triage: 0, locate: 0, deep: 0 };
    for (const key of ["findings", "sessions", "triage", "locate", "deep"]) sum[key] += day[key];
    found.set(week, sum);
  }
  return [...found.values()];
}

export function figureTable(data, by) {
  const rows = by === "Weeks" ? weeks(data.days) : data.days.slice(0, 28);
  if (!rows.length) return [h("p.empty", "No session has ended in the last 12 weeks.")];
  const most = Math.max(...rows.map((row) => row.triage + row.locate + row.deep), 1e-9);
  return [data.accuracy && h("p.prose", data.accuracy), table(`Cost and findings by ${by === "Weeks" ? "week" : "day"}`, [by === "Weeks" ? "Week of" : "Day", ".Findings", ".Sessions", ".Cost", "Relative cost"], rows.map((row) => {
    const cost = row.triage + row.locate + row.deep;
    const each = row.findings ? `${dollars(cost / row.findings)} each` : "no finding";
    return [named(row.day), String(row.findings), String(row.sessions), dollars(cost), [h("progress", { max: "1", value: String(cost / most), "aria-label": `${named(row.day)}: ${dollars(cost)}, ${each}`, title: `triage ${dollars(row.triage)}, locate ${dollars(row.locate)}, analysis ${dollars(row.deep)}, ${each}` })]];
  }))].filter(Boolean);
}
