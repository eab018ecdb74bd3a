// The page: reads what the address says, asks the server for it, and asks again whenever something has changed.

import { ServerError, get, keepToken, listen } from "./api.js";
import { MetricCard } from "./charts.js";
import { addHours, dayAndHour, duration, el, figure, hourKey } from "./format.js";
import { drawHour } from "./hour.js";
import { drawDrift, drawLate, drawQuality, drawWork, hourLink } from "./panels.js";
import { reportLink } from "./reports.js";
import { startSql } from "./sql.js";
import { drawLegend, drawStrip } from "./strip.js";
import { RANGES, addressOf, readView } from "./view.js";

const place = (id) => document.getElementById(id);
const SERIES_PAUSE_MS = 700; // between two looks at numbers
const REPORTS_PAUSE_MS = 5000; // between two looks at status, quality, late events and drift, unless an hour has changed
const iso = (moment) => moment.toISOString().slice(0, 19) + "Z";

let project;
let view = readView();
let sources = {}; // by name: by hour, what is known of it
let range = null;
let cards = [];
const links = { hour: hourLink((hour) => show({ hour })), report: reportLink };

// --- what one sees

function show(change, push = true) {
  view = { ...view, ...change };
  if (push) history.pushState(null, "", addressOf(view));
  drawBar();
  refresh({ series: true });
  if (change.hour) place("hour").scrollIntoView({ block: "nearest", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
}

window.addEventListener("popstate", () => {
  view = readView();
  place("sql-text").value = view.sql;
  show({}, false);
});

function drawBar() {
  const focused = document.activeElement?.closest("#range, #filters") ? document.activeElement.dataset.key : null;
  const hours = Object.values(sources).flatMap((known) => [...known.keys()]).sort();
  const newest = hours.length ? addHours(new Date(hours.at(-1)), 1) : null;
  const oldest = hours.length ? new Date(hours[0]) : null;
  const to = view.to ?? newest;
  range = to && { from: addHours(to, -view.hours), to };
  const button = (key, text, onclick, more = {}) => el("button", { type: "button", "data-key": key, onclick, ...more }, text);
  const moved = (by) => () => { const end = addHours(range.to, by); show({ to: end >= newest ? null : end }); };
  place("range").replaceChildren(
    ...Object.entries(RANGES).map(([count, text]) => button(count, text, () => show({ hours: Number(count) }), { "aria-pressed": String(view.hours === Number(count)) })),
    button("earlier", "‹", moved(-view.hours / 2), { "aria-label": "Earlier", title: "Earlier", disabled: !range || range.from <= oldest }),
    button("later", "›", moved(view.hours / 2), { "aria-label": "Later", title: "Later", disabled: !view.to }),
    view.to ? button("newest", "newest", () => show({ to: null })) : "");
  const without = (pair) => view.where.filter((other) => other !== pair);
  place("filters").replaceChildren(
    ...view.where.map((pair) => button(pair.join(":"), [`${pair[0]} ${pair[1] || "(null)"} `, el("span", { "aria-hidden": "true" }, "×")], () => show({ where: without(pair) }), { class: "chip", "aria-label": `Without the filter ${pair[0]} ${pair[1] || "null"}` })),
    ...dimensions().map((dimension) => el("select", { "data-key": `filter-${dimension}`, "aria-label": `Filter by ${dimension}`, onchange: (event) => event.target.value !== "." && show({ where: [...view.where, [dimension, event.target.value.slice(1)]] }) },
      el("option", { value: "." }, dimension), (choices[dimension] ?? []).filter((value) => !view.where.some(([name, chosen]) => name === dimension && chosen === value)).map((value) => el("option", { value: `=${value}` }, value || "(null)")))));
  if (focused) document.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

const dimensions = () => [...new Set(project.metrics.flatMap((metric) => metric.dimensions.map(({ name }) => name)))];
const choices = {}; // by dimension, its values

async function readChoices() {
  for (const dimension of dimensions()) {
    const metric = project.metrics.filter((one) => one.dimensions.some(({ name }) => name === dimension)).sort((one, other) => one.dimensions.length - other.dimensions.length)[0];
    const rows = await series(metric.name, [["dimension", dimension], ["grain", "total"], ["measure", metric.measures[0].name], ["order", dimension], ["limit", 500], ["from", iso(range.from)], ["to", iso(range.to)]], false);
    choices[dimension] = rows.map((row) => row[dimension] ?? "");
  }
  drawBar();
}

// --- what is there

async function series(metric, parameters, all = true) {
  const rows = [];
  let answer = await get(`metrics/${encodeURIComponent(metric)}`, parameters);
  for (rows.push(...answer.rows); all && answer.next; rows.push(...answer.rows)) {
    const next = new URL(answer.next, location.origin);
    answer = await get(`metrics/${encodeURIComponent(metric)}`, next.searchParams);
  }
  return rows;
}

function filtersOf(metric) {
  const has = new Set(metric.dimensions.map(({ name }) => name));
  return { where: view.where.filter(([name]) => has.has(name)).map((pair) => ["where", pair.join(":")]), unfiltered: [...new Set(view.where.map(([name]) => name))].filter((name) => !has.has(name)) };
}

async function drawSeries() {
  const answer = await get("hours");
  sources = Object.fromEntries(project.sources.map(({ name }) => [name, new Map()]));
  for (const hour of answer.hours) if (hour.kind === "source") sources[hour.name]?.set(hourKey(new Date(hour.hour)), hour);
  tellMoment(answer.token);
  drawBar();
  if (!range) {
    place("strip").replaceChildren(el("p", { class: "note empty" }, "No event has been accepted yet. Once the speed layer has read some, their hours appear here by themselves."));
    return;
  }
  drawStrip(place("strip"), sources, range, view.hour, (hour) => show({ hour }));
  const drawing = cards.map(async (card) => {
    const { metric } = card;
    const measure = metric.measures.some(({ name }) => name === view.measures[metric.name]) ? view.measures[metric.name] : metric.measures[0].name;
    const { where, unfiltered } = filtersOf(metric);
    const asked = range;
    const rows = await series(metric.name, [["from", iso(asked.from)], ["to", iso(asked.to)], ["dimension", ""], ["measure", measure], ...where]);
    if (asked.from <= range.from && asked.to >= range.to) card.draw({ rows, measure, range, open: view.hour, unfiltered });
  });
  await Promise.all([...drawing, drawOpenHour()]);
  place("metrics-note").textContent = view.where.length ? `where ${view.where.map(([name, value]) => `${name} is ${value || "null"}`).join(", ")}` : "all dimensions together";
}

async function drawOpenHour() {
  const hour = view.hour;
  if (!hour) {
    place("hour").hidden = true;
    return;
  }
  const [from, to] = [iso(hour), iso(addHours(hour, 1))];
  const values = cards.map(async ({ metric }) => ({ metric, row: (await series(metric.name, [["from", from], ["to", to], ["dimension", ""], ...filtersOf(metric).where]))[0] ?? null }));
  const [quality, late, drift] = await Promise.all([get("quality", [["hour", from]]), get("late", [["hour", from]]), get("drift", [["hour", from]])]);
  const known = Object.entries(sources).filter(([, hours]) => hours.has(hourKey(hour))).map(([source, hours]) => ({ source, ...hours.get(hourKey(hour)) }));
  if (view.hour && hourKey(view.hour) === hourKey(hour)) drawHour(place("hour"), hour, { known, values: await Promise.all(values), audits: quality.hours, late: late.hours ?? late, causes: drift.causes }, links, closeHour);
}

function closeHour() {
  const at = hourKey(view.hour);
  show({ hour: null });
  document.querySelector(`#strip [data-hour="${at}"]`)?.focus();
}

async function drawReports() {
  const [status, quality, late, drift] = await Promise.all([get("status", [["last", 1]]), get("quality"), get("late"), get("drift")]);
  drawFacts(status);
  drawWork(place("work"), status);
  if (!range) return;
  drawQuality(place("quality"), quality, range, links);
  drawLate(place("late"), late.hours ?? late, range, links);
  drawDrift(place("drift"), drift, range, links);
}

function drawFacts(status) {
  const fact = (name, value, title = null, bad = false) => el("div", { title, class: bad ? "bad" : null }, el("dt", {}, name), el("dd", {}, value));
  const several = status.sources.length > 1;
  const runs = status.speed.startsWith("the speed layer runs");
  place("facts").replaceChildren(
    fact("speed layer", runs ? "running" : "stopped", status.speed, !runs),
    ...status.sources.flatMap((source) => [
      fact(several ? `${source.source}: events up to` : "events up to", source.clock ? dayAndHour(new Date(source.clock)) : "–", "the highest accepted event time, UTC"),
      fact(several ? `${source.source}: unread` : "unread", source.lag === null ? "unknown" : figure(source.lag), source.lag === null ? "Kafka cannot be reached" : "records in Kafka that no finished micro-batch has read"),
      ...(source.finished ? [fact(several ? `${source.source}: read` : "read", `${duration(Math.max(0, (Date.now() - new Date(source.finished)) / 1000))} ago`, "when the newest micro-batch was finished")] : []),
      fact(several ? `${source.source}: accepted` : "accepted", figure(source.accepted), `${figure(source.rejected)} rejected, ${figure(source.duplicates)} duplicates`),
      ...(source.rejected ? [fact(several ? `${source.source}: rejected` : "rejected", figure(source.rejected), "kept, with their bytes and the reason")] : []),
    ]));
}

function tellMoment(token) {
  place("moment").replaceChildren("as of ", el("code", {}, token));
}

// --- staying up to date

const wanted = { series: false, reports: false };
let wake = () => {};

function refresh(what) {
  Object.assign(wanted, what);
  wake();
}

async function keepFresh() {
  let reportsDue = 0;
  for (;;) {
    if (!wanted.series && !(wanted.reports && Date.now() >= reportsDue)) {
      await new Promise((go) => {
        wake = go;
        if (wanted.reports) setTimeout(go, Math.max(0, reportsDue - Date.now()));
      });
      continue;
    }
    try {
      if (wanted.series) {
        wanted.series = false;
        await drawSeries();
      }
      if (wanted.reports && Date.now() >= reportsDue) {
        wanted.reports = false;
        await drawReports();
        reportsDue = Date.now() + REPORTS_PAUSE_MS;
      }
      trouble(null);
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      if (error.status === 401) return signIn(error.message);
      if (error.status) trouble(error.message); // a server that is gone is told by the connection
      await new Promise((done) => setTimeout(done, 2000));
      Object.assign(wanted, { series: true, reports: true });
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
  if (is) refresh({ series: true, reports: true });
}

function signIn(sentence) {
  place("main").hidden = true;
  place("sign-in").hidden = false;
  place("live").textContent = "signed out";
  place("live").classList.add("off");
  place("sign-in-note").textContent = sentence;
  place("token").focus();
}

place("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken(place("token").value.trim());
  location.reload();
});

async function start() {
  for (;;) {
    try {
      project = await get("project");
      break;
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      if (error.status === 401) return signIn(error.message);
      trouble(error.status ? error.message : "The server does not answer. Trying again by itself.");
      await new Promise((done) => setTimeout(done, 2000));
    }
  }
  document.title = `${project.project} · Hourline`;
  place("project").textContent = project.project;
  place("main").hidden = false;
  drawLegend(place("legend"));
  cards = project.metrics.map((metric) => new MetricCard(metric, { measure: (name, measure) => show({ measures: { ...view.measures, [name]: measure } }), hour: (hour) => show({ hour }) }));
  place("metrics").replaceChildren(...cards.map((card) => card.element));
  if (!cards.length) place("metrics").append(el("p", { class: "note empty" }, "No metric is declared."));
  place("sql").hidden = !project.sql;
  place("sql-text").value = view.sql || (project.metrics.length ? `FROM ${project.metrics[0].name} ORDER BY hour DESC LIMIT 20` : "FROM hours");
  startSql({ form: place("sql-form"), text: place("sql-text"), result: place("sql-result"), asked: (sql) => { view.sql = sql; history.replaceState(null, "", addressOf(view)); } });
  document.addEventListener("keydown", (event) => event.key === "Escape" && view.hour && closeHour());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => refresh({ series: true }));
  setInterval(() => refresh({ reports: true }), REPORTS_PAUSE_MS);
  refresh({ series: true, reports: true });
  keepFresh();
  listen((event) => refresh({ series: true, reports: event === "hour" }), connected).catch((error) => signIn(error.message));
  await drawSeries().then(readChoices).catch((error) => { if (!(error instanceof ServerError)) throw error; });
}

start();
