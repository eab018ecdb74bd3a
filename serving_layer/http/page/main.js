// The page: reads what the address says, asks the server for it, and asks again whenever something has changed.

import { ServerError, get, listen } from "./api.js";
import { MetricCard } from "./charts.js";
import { addHours, el, figure, hourKey, valueText } from "./format.js";
import { drawHour } from "./hour.js";
import { shortToken } from "./names.js";
import { drawDrift, drawLate, drawWork, hourLink, nothing, reportLink } from "./panels.js";
import { pointsOf, rowsOf, usualMeasure } from "./series.js";
import { startSql } from "./sql.js";
import { drawLegend, drawStrip } from "./strip.js";
import { drawMetrics, drawSources } from "./tables.js";
import { RANGES, addressOf, readView, whereText } from "./view.js";
import { drawWindow } from "./window.js";
import { drawWrong } from "./wrong.js";

const place = (id) => document.getElementById(id);
const SERIES_PAUSE_MS = 700; // between two looks at numbers
const REPORTS_PAUSE_MS = 5000; // between two looks at a report; one that takes long is asked for more rarely
const FEW_METRICS = 6; // a project without more shows them all
const MOST_CHARTS = 12; // of a source that was chosen
const iso = (moment) => moment.toISOString().slice(0, 19) + "Z";

let project;
let view = readView();
let sources = {}; // by name: by hour, what is known of it
let newest = null; // the end of the newest hour that is shown
let range = null; // what is shown: from, to
let shown = ""; // the range that `sources` is of
let cards = []; // those that are shown
const allCards = new Map(); // by metric, those that were shown once
const links = {
  hour: (hour, source) => hourLink((moment) => show(source && several() ? { source, hour: moment } : { hour: moment }))(hour),
  report: reportLink,
  source: (name, text) => el("a", { href: "#sources", onclick: (event) => { event.preventDefault(); choose(name); } }, text),
};

// --- what one sees

function show(change, push = true) {
  view = { ...view, ...change };
  if (push) history.pushState(null, "", addressOf(view));
  setRange();
  drawBar();
  chooseCards();
  drawTables();
  Object.values(reports).forEach(drawReport);
  refresh(NOTHING);
  const opened = ["hour", "window"].find((kind) => change[kind]);
  if (opened) place(opened).scrollIntoView({ block: "nearest", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
}

window.addEventListener("popstate", () => {
  view = readView();
  place("sql-text").value = view.sql;
  place("find").value = view.find;
  show({}, false);
});

function setRange() {
  const to = view.to ?? newest;
  range = to && { from: addHours(to, -view.hours), to };
}

function drawBar() {
  const focused = document.activeElement?.closest("#range, #sort, #filters") ? document.activeElement.dataset.key : null;
  const button = (key, text, onclick, more = {}) => el("button", { type: "button", "data-key": key, onclick, ...more }, text);
  const moved = (by) => () => { const end = addHours(range.to, by); show({ to: end >= newest ? null : end }); };
  place("range").replaceChildren(
    ...Object.entries(RANGES).map(([count, text]) => button(count, text, () => show({ hours: Number(count) }), { "aria-pressed": String(view.hours === Number(count)) })),
    button("earlier", "‹", moved(-view.hours / 2), { "aria-label": "Earlier", title: "Earlier", disabled: !range }),
    button("later", "›", moved(view.hours / 2), { "aria-label": "Later", title: "Later", disabled: !view.to }),
    view.to ? button("newest", "newest", () => show({ to: null })) : "");
  const order = (sort, text) => button(`sort-${sort}`, text, () => show({ sort }), { "aria-pressed": String(view.sort === sort) });
  place("sort").replaceChildren(...(several() ? [order("need", "by need"), order("name", "by name")] : []));
  place("choice").hidden = !several() && project.metrics.length <= FEW_METRICS;
  const without = (pair) => view.where.filter((other) => other !== pair);
  place("filters").replaceChildren(
    ...view.where.map((pair) => button(whereText(pair), [`${pair[0]} ${valueText(pair[1])} `, el("span", { "aria-hidden": "true" }, "×")], () => show({ where: without(pair) }), { class: "chip", "aria-label": `Without the filter ${pair[0]} ${valueText(pair[1])}` })),
    ...dimensions().map((dimension) => el("select", { "data-key": `filter-${dimension}`, "aria-label": `Filter by ${dimension}`, onchange: (event) => event.target.value !== "." && show({ where: [...view.where, [dimension, JSON.parse(event.target.value)]] }) },
      el("option", { value: "." }, dimension), (choices[dimension] ?? []).filter((value) => !view.where.some(([name, chosen]) => name === dimension && chosen === value)).map((value) => el("option", { value: JSON.stringify(value) }, valueText(value))))));
  if (focused) document.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

const dimensions = () => [...new Set(cards.flatMap(({ metric }) => metric.dimensions.map(({ name }) => name)))];
const several = () => project.sources.length > 1;
const chosenSource = () => (several() ? view.source : project.sources[0]?.name ?? null);
const choices = {}; // by dimension, its values

async function readChoices() {
  for (const dimension of dimensions().filter((name) => !(name in choices))) {
    choices[dimension] = []; // asked for once
    const metric = cards.map((card) => card.metric).filter((one) => one.dimensions.some(({ name }) => name === dimension)).sort((one, other) => one.dimensions.length - other.dimensions.length)[0];
    const rows = await rowsOf(metric.name, [["dimension", dimension], ["grain", "total"], ["measure", metric.measures[0].name], ["order", dimension], ["limit", 500], ["from", iso(range.from)], ["to", iso(range.to)]], false);
    choices[dimension] = rows.map((row) => (row[dimension] === null ? null : String(row[dimension])));
    drawBar();
  }
}

// --- what was chosen

function choose(name, hour) {
  if (name && !several()) return show({ hour: hour ?? view.hour });
  show({ source: name, metrics: [], ...(hour ? { hour } : {}) });
  if (name && !hour) place("hours-title").scrollIntoView({ block: "nearest" });
}

function charted() {
  const named = new Set(view.metrics);
  if (named.size) return project.metrics.filter(({ name }) => named.has(name));
  if (several() && view.source) return project.metrics.filter(({ source }) => source === view.source).slice(0, MOST_CHARTS);
  return project.metrics.length <= FEW_METRICS ? project.metrics : [];
}

function toggle(name) {
  const names = cards.map(({ metric }) => metric.name);
  show({ metrics: names.includes(name) ? names.filter((one) => one !== name) : [...names, name] });
}

function chooseCards() {
  const metrics = charted();
  const same = metrics.length === cards.length && metrics.every(({ name }, index) => cards[index].metric.name === name);
  if (same && cards.length) return;
  cards = metrics.map((metric) => {
    if (!allCards.has(metric.name)) allCards.set(metric.name, new MetricCard(metric, { measure: (name, measure) => show({ measures: { ...view.measures, [name]: measure } }), hour: (hour) => show({ hour }), window: (name, start) => show({ window: { metric: name, start } }) }));
    return allCards.get(metric.name);
  });
  const why = project.metrics.length ? "Choose a source, or metrics, to see their charts." : "No metric has results yet; `hourline up` starts reading events.";
  place("metrics").replaceChildren(...(cards.length ? cards.map((card) => card.element) : [nothing(why)]));
}

// Until the status is there, sources and metrics have names and hours alone.
function drawTables() {
  const { answer } = reports.status;
  const unknown = ({ name, clock }) => ({ source: name, clock, partitions: [], waits_for: [], registry_away: null, files: null, state: null, lag: null, lag_unknown: "not known yet", finished: null, rejected: null, oldest_open: null });
  drawSources(place("sources"), answer?.sources ?? project.sources.map(unknown), sources, range, view, choose);
  place("metric-list").hidden = project.metrics.length <= FEW_METRICS;
  drawMetrics(place("metric-list"), project.metrics, new Map((answer?.metrics ?? []).map((one) => [one.metric, one])), new Set(cards.map(({ metric }) => metric.name)), view, toggle);
}

function drawCalendar() {
  const name = chosenSource();
  if (!name) return place("strip").replaceChildren(nothing("Choose a source to see its hours by day."));
  drawStrip(place("strip"), name, sources[name] ?? new Map(), range, view.hour, (hour) => show({ hour }));
}

// --- what is there

function filtersOf(metric) {
  const has = new Set(metric.dimensions.map(({ name }) => name));
  return { where: view.where.filter(([name]) => has.has(name)).map((pair) => ["where", whereText(pair)]), unfiltered: [...new Set(view.where.map(([name]) => name))].filter((name) => !has.has(name)) };
}

// `changed`: between which hours something has changed since the last time; null: everywhere.
async function drawSeries(changed) {
  if (!range) {
    place("strip").replaceChildren(el("p", { class: "note empty" }, "No event has been accepted yet. Once the speed layer has read some, their hours appear here by themselves."));
    return;
  }
  const asked = range;
  const span = changed && shown === JSON.stringify(asked) ? { from: new Date(Math.max(changed.from, asked.from)), to: new Date(Math.min(changed.to, asked.to)) } : asked;
  if (span.from < span.to) {
    const answer = await get("hours", [["kind", "source"], ["from", iso(span.from)], ["to", iso(span.to)]]);
    if (span === asked) sources = Object.fromEntries(project.sources.map(({ name }) => [name, new Map()]));
    for (const hours of Object.values(sources)) forget(hours, span);
    for (const hour of answer.hours) sources[hour.name]?.set(hourKey(new Date(hour.hour)), hour);
    shown = JSON.stringify(asked);
  }
  drawTables();
  drawCalendar();
  await Promise.all([...cards.map((card) => drawCard(card, asked, span)), drawOpenHour(), drawOpenWindow()]);
  place("metrics-note").textContent = view.where.length ? `where ${view.where.map(([name, value]) => `${name} is ${valueText(value)}`).join(", ")}` : "all dimensions together";
}

async function drawCard(card, asked, span) {
  const { metric } = card;
  const measure = metric.measures.find(({ name }) => name === view.measures[metric.name]) ?? usualMeasure(metric);
  const { where, unfiltered } = filtersOf(metric);
  const about = JSON.stringify([asked, measure.name, where]);
  const part = card.about === about ? span : asked;
  if (part.from < part.to) {
    card.replace(await pointsOf(metric, measure, part, where), part === asked ? null : part);
    card.about = about;
  }
  const window = view.window?.metric === metric.name ? card.points.find(({ start }) => start.getTime() === view.window.start.getTime()) : null;
  card.draw({ measure, range: asked, open: window ?? (view.hour && { start: view.hour }), unfiltered });
}

function forget(hours, { from, to }) {
  for (const hour of hours.keys()) if (hour >= hourKey(from) && hour < hourKey(to)) hours.delete(hour);
}

async function drawOpenHour() {
  const hour = view.hour;
  if (!hour) {
    place("hour").hidden = true;
    return;
  }
  const [from, to] = [iso(hour), iso(addHours(hour, 1))];
  const values = await Promise.all(cards.map(async ({ metric }) => ({ metric, row: (await rowsOf(metric.name, [["from", from], ["to", to], ["grain", "hour"], ["dimension", ""], ...filtersOf(metric).where]))[0] ?? null })));
  opened = { hour, values, audits: (await get("quality", [["hour", from]])).hours };
  tellOpenHour();
}

let opened = null; // what has been asked about the hour that is open
function tellOpenHour() {
  if (!view.hour || !opened || hourKey(view.hour) !== hourKey(opened.hour)) return;
  const key = hourKey(opened.hour);
  const known = Object.entries(sources).filter(([source, hours]) => hours.has(key) && [null, source].includes(chosenSource())).map(([source, hours]) => ({ source, ...hours.get(key) }));
  const ofHour = (rows) => (rows ?? []).filter(({ hour }) => hourKey(new Date(hour)) === key);
  drawHour(place("hour"), opened.hour, { ...opened, known, late: ofHour(reports.late.answer?.hours), causes: ofHour(reports.drift.answer?.causes) }, links, closeHour);
}

async function drawOpenWindow() {
  const open = view.window;
  const metric = project.metrics.find(({ name }) => name === open?.metric);
  if (!metric) {
    place("window").hidden = true;
    return;
  }
  const told = await explainWindow(metric, open.start);
  if (view.window === open) drawWindow(place("window"), metric.name, open.start, told, links, closeWindow);
}

async function explainWindow(metric, start) {
  const names = filtersOf(metric).where.map(([, text]) => text.split(":")[0]);
  const twice = names.find((name, index) => names.indexOf(name) < index);
  if (twice) return { trouble: `A window is explained for one value of ${twice}, or for all: leave one filter.` };
  try {
    return { explained: await get(`explain/${metric.name}/windows/${start.toISOString().slice(0, 16)}`, filtersOf(metric).where) };
  } catch (error) {
    if (!(error instanceof ServerError) || error.status !== 404) throw error;
    return { trouble: error.message }; // no event counts there
  }
}

function closeWindow() {
  const { metric } = view.window;
  show({ window: null });
  document.querySelector(`[data-metric="${CSS.escape(metric)}"] select`)?.focus();
}

function closeHour() {
  const at = hourKey(view.hour);
  show({ hour: null });
  document.querySelector(`#strip [data-hour="${at}"]`)?.focus();
}

// What stands beside the numbers. Asked one after the other, so that a slow one does not hold up the rest, and only
// while its place is on the screen.
const reports = {
  status: { place: "sources", parameters: [["last", 0]], draw: drawStatus },
  drift: { place: "drift", draw: (answer) => drawDrift(place("drift"), { ...answer, causes: ofChosen(answer.causes) }, range, links) },
  late: { place: "late", draw: (answer) => drawLate(place("late"), ofChosen(answer.hours), range, links) },
};

const ofChosen = (rows) => rows.filter(({ source }) => [null, source].includes(chosenSource()));

async function keepReports() {
  const seen = new IntersectionObserver((entries) => entries.forEach(({ target, isIntersecting }) => { target.dataset.seen = isIntersecting ? "yes" : ""; }));
  for (const report of Object.values(reports)) seen.observe(place(report.place).parentElement);
  for (;;) {
    for (const [path, report] of Object.entries(reports)) {
      const isShown = report === reports.status || view.hour || place(report.place).parentElement.dataset.seen;
      if (!isShown || Date.now() < (report.due ?? 0)) continue;
      const begun = Date.now();
      try {
        report.answer = await get(path, report.parameters);
        report.due = Date.now() + Math.max(REPORTS_PAUSE_MS, 10 * (Date.now() - begun));
        drawReport(report);
        if (range) await readChoices();
      } catch (error) {
        if (!(error instanceof ServerError)) throw error;
        if (error.status) trouble(error.message); // a server that is gone is told by the connection
        report.due = Date.now() + REPORTS_PAUSE_MS;
      }
    }
    await new Promise((done) => setTimeout(done, 500));
  }
}

function drawReport(report) {
  if (!report.answer || (!range && report !== reports.status)) return;
  report.draw(report.answer);
  tellOpenHour();
}

function drawStatus(status) {
  noteClocks(status.sources);
  drawFacts(status);
  drawWrong(place("wrong"), place("wrong-note"), status, links);
  drawTables();
  drawWork(place("work"), status);
}

function drawFacts({ speed, sources: all }) {
  const runs = speed.startsWith("the speed layer runs");
  const fact = (name, value, more = {}) => el("div", more, el("dt", {}, name), el("dd", {}, value));
  place("facts").replaceChildren(
    fact("speed layer", runs ? "running" : "stopped", { title: speed, class: runs ? null : "bad" }),
    fact(all.length === 1 ? "source" : "sources", all.length === 1 ? all[0].source : figure(all.length)),
    fact(project.metrics.length === 1 ? "metric" : "metrics", figure(project.metrics.length)));
}

// The page ends with the hour of the highest clock: a record of a wrong future date moves no clock. A partition may be
// ahead of its source.
function noteClocks(known) {
  const clocks = known.flatMap(({ clock, partitions = [] }) => [clock, ...partitions.map((one) => one.clock)]).filter(Boolean).map((clock) => new Date(clock));
  if (!clocks.length) return;
  const end = addHours(new Date(hourKey(new Date(Math.max(...clocks)))), 1);
  if (newest && end <= newest) return;
  newest = end;
  if (view.to) return;
  setRange();
  drawBar();
  refresh(NOTHING); // what is new in the range is asked for
}

function tellMoment(token) {
  const copy = el("button", { type: "button", class: "copy", title: "Copy the whole token", "aria-label": "Copy the whole token", onclick: () => navigator.clipboard?.writeText(token) }, "copy");
  place("moment").replaceChildren("as of ", el("code", { title: token }, shortToken(token)), " ", copy);
}

// --- staying up to date

const NOTHING = { from: Infinity, to: -Infinity };
let changed = null; // between which hours numbers have changed since they were asked for; null: everywhere
let wanted = true; // something has changed, or something else is looked at
let wake = () => {};

function refresh(hours = null) {
  wanted = true;
  changed = hours && changed && { from: Math.min(changed.from, hours.from), to: Math.max(changed.to, hours.to) };
  wake();
}

async function keepSeries() {
  for (;;) {
    if (!wanted) {
      await new Promise((go) => (wake = go));
      continue;
    }
    const hours = changed;
    wanted = false;
    changed = NOTHING;
    try {
      await drawSeries(hours);
      trouble(null);
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      if (error.status) trouble(error.message);
      refresh();
      await new Promise((done) => setTimeout(done, 2000));
    }
    await new Promise((done) => setTimeout(done, SERIES_PAUSE_MS));
  }
}

function trouble(sentence) {
  place("trouble").hidden = !sentence;
  place("trouble").textContent = sentence ?? "";
}

function connected(is) {
  place("live").textContent = is ? "live" : "reconnecting";
  place("live").classList.toggle("off", !is);
  trouble(is ? null : "The server does not answer. What is shown may be out of date; trying again by itself.");
}

async function start() {
  for (;;) {
    try {
      project = await get("project");
      break;
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      trouble(error.status ? error.message : "The server does not answer. Trying again by itself.");
      await new Promise((done) => setTimeout(done, 2000));
    }
  }
  document.title = `${project.project} · Hourline`;
  place("project").textContent = project.project;
  place("main").hidden = false;
  drawLegend(place("legend"));
  noteClocks(project.sources);
  chooseCards();
  if (!project.metrics.length) for (const id of ["late", "drift"]) place(id).replaceChildren(nothing("Nothing yet."));
  place("find").value = view.find;
  place("find").addEventListener("input", (event) => { view.find = event.target.value.trim(); history.replaceState(null, "", addressOf(view)); drawTables(); });
  place("sql").hidden = !project.sql;
  place("sql-text").value = view.sql || (project.metrics.length ? `FROM ${project.metrics[0].name} ORDER BY ${project.metrics[0].window ? "window_start" : "hour"} DESC LIMIT 20` : "FROM hours");
  startSql({ form: place("sql-form"), text: place("sql-text"), result: place("sql-result"), asked: (sql) => { view.sql = sql; history.replaceState(null, "", addressOf(view)); } });
  document.addEventListener("keydown", (event) => event.key === "Escape" && (view.hour ? closeHour() : view.window && closeWindow()));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => cards.forEach((card) => card.redraw()));
  setRange();
  drawBar();
  drawTables();
  keepSeries();
  keepReports();
  let told = false; // whether this connection has told its first token, which says what is there already
  listen({
    connected: (is) => {
      told = false;
      connected(is);
    },
    hour: ({ hour }) => {
      const from = new Date(hour);
      if (from >= newest) reports.status.due = 0; // the clock may have moved
      refresh({ from: from.getTime(), to: addHours(from, 1).getTime() });
    },
    token: ({ token, complete }) => {
      if (!project.metrics.length && (told || token !== project.token)) location.reload(); // there may be some now
      told = true;
      tellMoment(token);
      if (!complete) refresh();
    },
  });
}

start();
