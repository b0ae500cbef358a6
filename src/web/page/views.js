// The parts of the page, each a function of the newest state.
import { findingRow } from "./finding.js";
import { STATES, because, booked, byId, capital, clock, dollars, h, itemPath, keyed, lasted, mark, matches, moment, outcomeName, partly, phaseName, plural, runPath, say, sessionPath, short, span, stageName, svg, told, untimed, words } from "./dom.js";

const RUN_TONES = { completed: "good", nothing_new: "good", interrupted: "warn", some_failed: "warn", not_now: "warn", crashed: "bad" };
const VERDICT_TONES = { working: "good", starting: "info", waiting_for_model: "info", quiet: "info", retrying: "warn", finished_not_exiting: "warn", suspect: "warn", hung: "bad" };
const PHASE_TONES = { waiting: "warn", parked: "bad", claimed: "info", pending: "info" };

export const toneOfRun = (run) => (run.outcome ? RUN_TONES[run.outcome] ?? "bad" : run.lost ? "bad" : "info");

const tag = (tone, text) => h("span.tag", { "data-tone": tone }, text);

export function health(state) {
  const pill = byId("health");
  mark(pill, "data-status", state.health.status);
  const count = state.health.reasons.length;
  say(pill, count ? `${state.health.status} · ${plural(count, "reason")}` : state.health.status);
}

const toneOfDoubt = (doubt) => (doubt.status === "unhealthy" || doubt.status === "blocked" ? "bad" : "warn");

/** A doubt with its reason, where the rest of the state has it. */
function inFull({ code, message }, state) {
  const bare = message.replace(/; `heartbeat status` says why$/, "");
  const failed = ["fetch", "triage", "analyse"].map((name) => state.run?.stages?.[name]).find((stage) => stage?.state === "failed" && stage.why);
  if (code === "last_run" && state.run?.outcome) {
    // What held a run back is not a failure of a stage; a provider has its own line.
    const held = state.run.outcome === "not_now" && !state.provider && state.run.stages?.analyse;
    return [outcomeName(state.run.outcome), (failed ?? held)?.why].filter(Boolean).map(capital).join(". ");
  }
  return bare !== message && state.provider?.reason ? `${bare}: ${state.provider.reason}` : message;
}

/** What needs attention, in full: nobody should have to ask for it. */
export function doubts(state) {
  const list = byId("doubts");
  const rows = state.health.reasons;
  list.hidden = !rows.length;
  keyed(list, rows, (doubt) => `${doubt.code} ${inFull(doubt, state)}`, (doubt) => h("li", { "data-tone": toneOfDoubt(doubt) }, h("strong", `${capital(words(doubt.code))}: `), told(inFull(doubt, state))), () => {});
}

export function reasons(state, close) {
  const list = state.health.reasons.map((doubt) => h("li", tag(toneOfDoubt(doubt), words(doubt.code)), " ", told(inFull(doubt, state))));
  return [
    h("div.bar", h("h2", { id: "reasons-title" }, `Health: ${state.health.status}`), h("button", { onclick: close }, "Close")),
    h("div.inside", list.length ? h("ul.bullets", list) : h("p", "No problems: sessions, load, source, state, budget and the last run are fine.")),
  ];
}

export function run(state, now) {
  const run = state.run;
  const figures = run ? { ...(run.summary ?? {}), ...run } : {};
  const live = run && !run.ended_at && !run.lost;
  note(state, run, live, now);
  const decided = run?.decisions ?? {};
  const fetchedNote = run ? `${plural(figures.work ?? (figures.new ?? 0) + (figures.changed ?? 0), "item")} to do, ${decided.unchanged ?? figures.unchanged ?? 0} unchanged` : "";
  const deep = figures.deep ?? 0;
  const toAnalyse = Math.max(figures.to_analyse ?? deep, figures.analysed ?? 0);
  const stages = [
    ["Fetch", "fetch", figures.fetched ?? 0, fetchedNote],
    ["Triage", "triage", figures.triaged ?? 0, run ? `${deep} for deep analysis, ${figures.settled ?? figures.settled_by_triage ?? 0} settled` : ""],
    ["Analyse", "analyse", figures.analysed ?? 0, run ? `of ${toAnalyse}, ${plural(figures.failed ?? figures.failed_sessions ?? 0, "failure")}` : ""],
    ["Result", "result", run && !live ? partly(figures.cost, figures.cost_estimated) : "–", run && !live ? outcomeName(run.outcome ?? "crashed") + (figures.cost_at_worst ? `; up to ${dollars(figures.cost_at_worst)} more: sessions that did not report their cost` : "") : `${partly(figures.cost, figures.cost_estimated)} so far`],
  ];
  keyed(byId("stages"), stages, (row) => row[0],
    (row) => h("li.stage", h("h3", row[0], h("span.is")), h("div.big"), h("div.small")),
    (element, [, stage, big, small]) => {
      const { state: is = "ahead", why } = run?.stages?.[stage] ?? {};
      mark(element, "data-is", is);
      mark(element, "aria-current", is === "running" ? "step" : null);
      say(element.querySelector(".is"), is === "ahead" ? "" : is);
      const idle = is === "skipped" && stage !== "result" && String(big) === "0";
      say(element.children[1], idle || (is === "failed" && String(big) === "0") ? "–" : String(big));
      say(element.children[2], !run ? "" : stage !== "result" && (is === "skipped" || is === "failed") && why ? why : [small, stage !== "result" && why].filter(Boolean).join("; "));
    });
  notices(run, live, state.health.reasons.some(({ code }) => code === "last_run"));
  lastUseful(state, run, live);
}

/** Failures in full: a stage shows only the beginning. */
function notices(run, live, isTold) {
  const { fetch, triage, analyse } = run?.stages ?? {};
  const failed = Object.entries({ Fetch: fetch, Triage: triage, Analyse: analyse }).filter(([, stage]) => stage?.state === "failed");
  const known = failed.map(([, stage]) => stage.why);
  const others = (live || toneOfRun(run ?? {}) === "bad" ? run?.notices : null) ?? [];
  // The first one is among what needs attention, if the last run is.
  const rows = [...failed.map(([name, stage]) => `${name} failed: ${stage.why}`).slice(isTold && !live ? 1 : 0), ...others.filter((text) => !known.includes(text))];
  keyed(byId("notices"), rows, (text) => text, (text) => h("li", told(text)), () => {});
}

/** Keeps the last run with work visible after runs without news. */
function lastUseful(state, run, live) {
  const useful = state.last_useful;
  const line = byId("last-useful");
  line.hidden = !useful || live || useful.run === run?.run;
  if (line.hidden) return;
  const { triaged, settled_by_triage, analysed, cost, cost_estimated } = useful.summary;
  const link = line.firstElementChild;
  mark(link, "href", runPath(useful.run));
  say(link, `Last run with work: ${moment(useful.started_at)}, ${plural(triaged, "item")} triaged, ${settled_by_triage} settled, ${plural(analysed, "finding")}, ${partly(cost, cost_estimated)}`);
}

function note(state, run, live, now) {
  let text = "No run yet.";
  if (live) text = `${run.trigger === "manual" ? "started manually" : "scheduled"}, running for ${span(now - Date.parse(run.started_at))}`;
  else if (run?.lost) text = `crashed; started ${moment(run.started_at)}`;
  else if (run) text = `ended ${moment(run.ended_at)} after ${lasted(took(run))}`;
  say(byId("run-note"), text);
  const link = byId("run-link");
  link.hidden = !run;
  if (run) mark(link, "href", runPath(run.run));
  schedule(state, now);
}

function schedule(state, now) {
  const { next_run: next, paused, cron, timezone } = state.schedule;
  say(byId("schedule"), paused ? "paused" : next ? `next run in ${span(Date.parse(next) - now)}` : "no run scheduled");
  mark(byId("schedule-row"), "data-tone", paused ? "warn" : null);
  say(byId("schedule-state"), paused ? `Schedule paused since ${moment(paused.since)}${paused.note ? `: ${paused.note}` : ""}` : `Schedule ${cron} (${timezone})`);
  say(byId("schedule-pause"), paused ? "Resume schedule" : "Pause schedule");
}

export function sessions(state, now, act) {
  const limit = state.limits.max_live_sessions;
  const live = state.sessions;
  say(byId("sessions-note"), `${live.length} of ${plural(limit, "slot")} in use${onHosts(live)}`);
  const free = Math.max(0, limit - live.length);
  const rows = free ? [...live, { free, session: "free" }] : live;
  keyed(byId("sessions"), rows, (row) => row.session,
    (row) => (row.free ? h("li.slot.free") : slot(row, act)),
    (element, row) => (row.free ? say(element, `${plural(row.free, "free slot")}`) : fillSlot(element, row, now)));
}

/** Number of sessions per host of a fleet; empty on one machine. */
function onHosts(live) {
  const hosts = new Map();
  for (const { host } of live) {
    if (host != null) hosts.set(host, (hosts.get(host) ?? 0) + 1);
  }
  const named = [...hosts].sort().map(([host, count]) => `${host || "waiting for a host"}: ${count}`);
  return named.length ? `, ${named.join(", ")}` : "";
}

/** Stops a session after a second click. */
export function stopButton(name, act) {
  const stop = h("button.danger", { "aria-label": `Stop session for ${name}` }, "Stop");
  stop.addEventListener("click", () => {
    if (!stop.classList.contains("sure")) {
      stop.classList.add("sure");
      say(stop, "Really stop?");
      setTimeout(() => { if (!stop.disabled) { stop.classList.remove("sure"); say(stop, "Stop"); } }, 5000);
      return;
    }
    stop.disabled = true;
    say(stop, "Stopping…");
    act().catch(() => { stop.disabled = false; stop.classList.remove("sure"); say(stop, "Stop"); });
  });
  return stop;
}

function slot(row, act) {
  const name = row.item ? `${short(row.item)} ${row.title ?? ""}` : "all changed items";
  const title = row.item
    ? h("a.plain", { href: itemPath(row.item), title: name }, name)
    : h("span", { title: name }, name);
  const stop = stopButton(name, () => act.stop(row.session));
  return h("li.slot.live",
    h("div.row", h("a.tag", { "data-tone": "info", href: sessionPath(row.session) }, stageName(row.stage)), h("div.title", title), h("span.tag.verdict"), stop),
    h("progress", { max: "1", "aria-label": "Time used, of the limit" }),
    h("div.facts", h("span.evidence"), h("span.time"), h("span.tree"), h("span.what"), h("span.money"), h("span.who")));
}

function fillSlot(element, row, now) {
  const part = (name) => element.querySelector(`.${name}`);
  const verdict = row.stopping ? "stopping" : row.verdict ?? "starting";
  mark(part("verdict"), "data-tone", row.stopping ? "warn" : VERDICT_TONES[verdict] ?? "info");
  say(part("verdict"), words(verdict));
  const used = now - Date.parse(row.started_at);
  const limit = Date.parse(row.deadline_at) - Date.parse(row.started_at);
  const share = Math.min(1, Math.max(0, used / limit));
  const bar = element.querySelector("progress");
  bar.value = share;
  bar.className = share > 0.9 ? "bad" : share > 0.7 ? "warn" : "";
  say(part("evidence"), row.stopping ? `stopping: ${words(row.stopping)}` : row.evidence || (row.last_progress ? `last step: ${words(row.last_progress)}` : "just started"));
  say(part("time"), `${span(used)} of ${span(limit)}`);
  const memory = row.beat?.rss_kib ? `, ${Math.round(row.beat.rss_kib / 1024)} MiB` : "";
  say(part("tree"), `${plural(row.processes ?? 0, "process").replace("processs", "processes")}${memory}`);
  const tool = row.beat?.open_tool ? `tool ${row.beat.open_tool}, ` : "";
  say(part("what"), `${tool}${plural(row.progress ?? 0, "step")}`);
  say(part("money"), `max ${dollars(row.worst_case)}`);
  say(part("who"), [row.session.slice(-8), row.model, row.host === "" ? "waiting for a host" : row.host ? `host ${row.host}` : null, row.pid ? `pid ${row.pid}` : null, row.attempt > 1 ? `attempt ${row.attempt}` : null].filter(Boolean).join(" · "));
}

const PROVIDER = { outage: "does not answer, no sessions", probing: "is being probed, no sessions", limit: "limit reached, no sessions", credential: "refuses the credential, no sessions" };

function sourceText(state, source, now) {
  const breaker = source.breaker.state;
  if (breaker.is !== "closed") return `breaker ${words(breaker.is)}${breaker.until ? ` for ${span(Date.parse(breaker.until) - now)}` : ""}`;
  if (source.not_before) return `no requests before ${clock(source.not_before)}, as the source asked`;
  if (state.run?.source_failed && state.sources.length === 1) return "the last read failed";
  return state.run ? "reachable" : "not read yet";
}

export function limits(state, now) {
  const budget = state.budget;
  const committed = (money) => money.spent + money.reserved;
  const rows = [
    ["Sessions", `${state.sessions.length} of ${state.limits.max_live_sessions}`, state.sessions.length / state.limits.max_live_sessions, "full is fine"],
    ["Today", `${booked(budget.day)} of ${dollars(budget.per_day)}`, committed(budget.day) / budget.per_day],
    ["This month", `${dollars(budget.month.billed)} billed, ${dollars(budget.month.assumed)} assumed${budget.month_forecast ? `; about ${dollars(budget.month_forecast)} at its end` : ""}`, null],
    ["This run", `${booked(budget.run)} of ${dollars(budget.per_run)}`, committed(budget.run) / budget.per_run],
    ...(budget.others ?? []).map((other) => [`${other.source ? `Source ${other.source}` : "All"} per ${other.window}`, `${booked(other)} of ${dollars(other.limit)}`, committed(other) / other.limit]),
    ["Load per core", `${state.load.per_core.toFixed(2)} of ${state.load.limit.toFixed(2)}`, state.load.per_core / state.load.limit],
    ...state.sources.map((source) => [state.sources.length > 1 ? `Source ${source.name}` : "Source", sourceText(state, source, now), null]),
    ["Provider", state.provider ? `${PROVIDER[state.provider.kind] ?? "suspended"} until ${clock(state.provider.until)}: ${state.provider.reason}` : "available", null],
  ];
  for (const [name, items] of Object.entries(state.removed_sources ?? {})) rows.push([`Source ${name}`, `no longer configured, ${plural(items, "item")} parked`, null]);
  const { pending, failed } = state.outbox ?? {};
  if (pending || failed) rows.push(["Outbox", [pending && `${plural(pending, "message")} to deliver`, failed && `${failed} given up`].filter(Boolean).join(", "), null]);
  keyed(byId("limits"), rows, (row) => row[0],
    (row) => h("div", h("dt", row[0]), h("dd", h("span")), row[2] === null ? null : h("dd", h("progress", { max: "1", "aria-label": row[0] }))),
    (element, [, text, share, full]) => {
      say(element.querySelector("span"), text);
      if (share === null) return;
      const bar = element.querySelector("progress");
      bar.value = Math.min(1, share || 0);
      bar.className = share > 1 ? "bad" : share > 0.8 && !full ? "warn" : "";
    });
}

export function queue(state, now, filter, act) {
  const waiting = state.queue.items.filter((item) => matches(filter, item.key, item.title, phaseName(item.phase), because(item.reason)));
  const order = ["queued", "failed", "parked", "done", "settled"];
  const counts = (state.queue.states ?? []).filter(([name]) => name !== "gone").sort(([a], [b]) => order.indexOf(a) - order.indexOf(b));
  keyed(byId("queue-note"), counts, ([name]) => name, ([name]) => h("li", h("a", { href: `/items?state=${name}` })),
    (element, [name, count]) => say(element.firstChild, `${count} ${STATES[name]}`));
  const more = state.queue.total - state.queue.items.length;
  const empty = byId("queue-empty");
  empty.hidden = waiting.length > 0;
  say(empty, filter ? "No queued item matches the filter." : counts.length ? "The queue is empty. Every known item is finished." : "No item is known yet. The first run reads them.");
  keyed(byId("queue"), waiting.concat(more > 0 && !filter ? [{ key: "more", more }] : []), (item) => item.key,
    (item) => item.more ? h("li") : h("li",
      h("div.row", h("div.title", h("a.plain", { href: itemPath(item.key) }, h("span.number", short(item.key)), ` ${item.title}`)), h("span.tag"), h("button.again", "Retry")),
      h("p")),
    (element, item) => {
      if (item.more) return say(element, `and ${item.more} more${state.queue.backlog ? `; ${state.queue.backlog}` : ""}`);
      const badge = element.querySelector(".tag");
      mark(badge, "data-tone", PHASE_TONES[item.phase]);
      say(badge, phaseName(item.phase));
      const due = item.next_attempt ? `, retry in ${span(Date.parse(item.next_attempt) - now)}` : "";
      const tries = item.attempts ? `, ${plural(item.attempts, "attempt")}` : "";
      const left = item.deferrals && item.phase === "pending" ? `, deferred ${plural(item.deferrals, "time")}` : "";
      say(element.querySelector("p"), `${because(item.reason)}${tries}${left}${due}`);
      const again = element.querySelector(".again");
      again.hidden = !["waiting", "parked"].includes(item.phase);
      mark(again, "aria-label", `Retry ${short(item.key)}`);
      again.onclick = () => act.retry(item.key);
    });
}

/** Findings on the first page; the rest have a page of their own. */
const FIRST = 6;

/** What to read now: the most worthwhile first; read ones sink. */
export function findings(rows, filter, isSeen) {
  const fitting = rows.filter((row) => matches(filter, row.key, short(row.key), row.title, row.summary));
  const shown = fitting.slice(0, filter ? 50 : FIRST);
  const unread = rows.filter((row) => !isSeen(row)).length;
  // The page has the first ones only.
  const more = rows.length >= 25 ? "at least " : "";
  say(byId("findings-note"), rows.length ? `${more}${unread} unread${more ? "" : ` of ${rows.length}`}, the most worthwhile first` : "");
  const all = byId("findings-all");
  all.hidden = rows.length <= FIRST;
  say(all, more ? "All findings" : `All ${rows.length} findings`);
  const empty = byId("findings-empty");
  empty.hidden = shown.length > 0;
  say(empty, filter ? "No finding matches the filter." : "No findings yet. They appear here when an analysis completes.");
  keyed(byId("findings"), shown, (row) => `${row.session}${isSeen(row)}${row.feedback?.opinion ?? ""}`, (row) => findingRow(row, isSeen(row)), () => {});
}

const LIMIT = 400;
export function activity(lines, paused) {
  if (paused) return;
  keyed(byId("activity"), lines.slice(0, LIMIT), (line) => line.seq,
    (line) => h(/ALARM|SURVIVORS/.test(line.line) ? "li.alarm" : "li", h("time", { datetime: line.at }, clock(line.at)), h("span", untimed(line.line))),
    () => {});
}

export const MEASURES = {
  Duration: [(run) => took(run), (value) => lasted(value)],
  Sessions: [(run) => run.summary?.sessions ?? 0, (value) => plural(value, "session")],
  Findings: [(run) => run.summary?.analysed ?? 0, (value) => plural(value, "finding")],
  Cost: [(run) => run.summary?.cost ?? 0, (value) => dollars(value)],
};
const took = (run) => (run.ended_at ? Date.parse(run.ended_at) - Date.parse(run.started_at) : 0);

export function history(runs, measure) {
  const [valueOf, text] = MEASURES[measure];
  const shown = runs.filter((run) => run.ended_at).slice(0, 40).reverse();
  byId("chart").replaceChildren(...(shown.length ? chart(shown, valueOf, text, measure) : [h("p.empty", "No run has ended yet.")]));
  byId("runs").replaceChildren(...runs.map((run) => h("tr",
    h("td", h("a", { href: runPath(run.run) }, moment(run.started_at))), h("td", outcomeName(run.outcome ?? "in progress")), h("td.num", run.ended_at ? lasted(took(run)) : "–"),
    h("td.num", String(run.summary?.sessions ?? "–")), h("td.num", String(run.summary?.analysed ?? "–")), h("td.num", run.summary ? partly(run.summary.cost, run.summary.cost_estimated) : "–"))));
}

function chart(runs, valueOf, text, measure) {
  const [width, height] = [400, 84];
  const top = Math.max(...runs.map(valueOf), 1e-9);
  const slot = Math.min(24, width / runs.length);
  const bars = runs.map((run, index) => {
    const size = Math.max(2, (valueOf(run) / top) * (height - 2));
    const tone = run.outcome === "nothing_new" ? "idle" : toneOfRun(run);
    const title = svg("title", {}, `${moment(run.started_at)}: ${text(valueOf(run))}, ${outcomeName(run.outcome)}`);
    return svg("rect", { class: tone, x: index * slot + slot * 0.15, y: height - 1 - size, width: slot * 0.7, height: size }, title);
  });
  const last = runs[runs.length - 1];
  const label = `${measure} of the last ${plural(runs.length, "run")}: maximum ${text(top)}, latest ${text(valueOf(last))}`;
  return [
    h("div.ends", h("span", `max ${text(top)}`), h("span", `latest ${text(valueOf(last))}`)),
    svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
      svg("line", { x1: 0, x2: width, y1: height - 0.5, y2: height - 0.5 }), ...bars),
    h("div.ends", h("span", moment(runs[0].started_at)), h("span", plural(runs.length, "run"))),
  ];
}
