// The view that a person has chosen. The address keeps it, so a link restores it.
//
//   hours=72            the number of hours, one of RANGES
//   to=2026-03-02T09    the hour after the last one; without it, the hours end with the newest
//   source=flights      the source whose calendar and charts are shown
//   metric=delays       a metric that has a chart; without any, those of the source, or of a small project all
//   find=text           what the names of sources and metrics were filtered by
//   sort=name           sources and metrics in the order of their names; without it, those first that need a look
//   where=origin:JFK    a filter; `origin` alone is null; two of one dimension show either value
//   measure=metric:name the measure that a metric shows, if a person chose it
//   hour=2026-03-02T09  the hour that is open
//   window=metric:2026-03-02T09:30  the window that is open
//   sql=…               the SQL that was asked

export const RANGES = { 24: "24 hours", 72: "3 days", 168: "7 days", 672: "4 weeks" };
const USUAL = 72;

export function readView() {
  const given = new URLSearchParams(location.search);
  const pairs = (key) => given.getAll(key).map((text) => (text.includes(":") ? [text.slice(0, text.indexOf(":")), text.slice(text.indexOf(":") + 1)] : [text, null]));
  return {
    hours: given.get("hours") in RANGES ? Number(given.get("hours")) : USUAL,
    to: hourOf(given.get("to")),
    source: given.get("source"),
    metrics: given.getAll("metric"),
    find: given.get("find") ?? "",
    sort: given.get("sort") === "name" ? "name" : "need",
    where: pairs("where"),
    measures: Object.fromEntries(pairs("measure").filter(([, measure]) => measure)),
    hour: hourOf(given.get("hour")),
    window: windowOf(given.get("window") ?? ""),
    sql: given.get("sql") ?? "",
  };
}

// A filter, as the server is asked for it.
export const whereText = ([dimension, value]) => (value === null ? dimension : `${dimension}:${value}`);

export function addressOf(view) {
  const kept = new URLSearchParams();
  if (view.hours !== USUAL) kept.append("hours", view.hours);
  if (view.to) kept.append("to", view.to.toISOString().slice(0, 13));
  if (view.source) kept.append("source", view.source);
  for (const metric of view.metrics) kept.append("metric", metric);
  if (view.find) kept.append("find", view.find);
  if (view.sort !== "need") kept.append("sort", view.sort);
  for (const [dimension, value] of view.where) kept.append("where", whereText([dimension, value]));
  for (const [metric, measure] of Object.entries(view.measures)) kept.append("measure", `${metric}:${measure}`);
  if (view.hour) kept.append("hour", view.hour.toISOString().slice(0, 13));
  if (view.window) kept.append("window", `${view.window.metric}:${view.window.start.toISOString().slice(0, 16)}`);
  if (view.sql) kept.append("sql", view.sql);
  const text = kept.toString().replaceAll("%3A", ":");
  return text ? `?${text}` : location.pathname;
}

function windowOf(text) {
  const [, metric, time] = /^(\w+):(\d{4}-\d\d-\d\dT\d\d:\d\d)$/.exec(text) ?? [];
  const start = new Date(`${time}Z`);
  return metric && !Number.isNaN(start.getTime()) ? { metric, start } : null;
}

function hourOf(text) {
  const moment = /^\d{4}-\d\d-\d\dT\d\d/.test(text ?? "") ? new Date(`${text.slice(0, 13)}:00Z`) : null;
  return moment && !Number.isNaN(moment.getTime()) ? moment : null;
}
