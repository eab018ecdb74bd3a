// The tables of sources and of metrics: a row each, those that need a look first, or by name.

import { clockTime, dateOf, dayAndHour, duration, el, figure } from "./format.js";
import { isFound, natural } from "./names.js";
import { nothing, state } from "./panels.js";
import { hourRow } from "./row.js";
import { STATES } from "./states.js";

const METRICS_SHOWN = 12;
const unfolded = new Set(); // the sources whose metrics are all shown; "": those of all sources

// The server lists sources by need.
export function sortedSources(sources, { find, sort }) {
  const found = sources.filter(({ source }) => isFound(find, source));
  return sort === "name" ? found.sort((one, other) => natural(one.source, other.source)) : found;
}

// `hours`: by source, by hour, what is known of it; `chosen` is told a source and, if one was clicked, an hour.
export function drawSources(place, sources, hours, range, view, chosen) {
  const shown = sortedSources(sources, view);
  if (!shown.length) return place.replaceChildren(nothing(sources.length ? "No source has this in its name." : "No source is declared."));
  const heads = ["Source", "Weakest state", "Clock", ">Unread", ">Last read", ">Rejected", "Oldest open", "Hours"].map((head) => el("th", { scope: "col", class: head.startsWith(">") ? "n" : null }, head.replace(">", "")));
  const rows = shown.map((source) => sourceRow(source, hours[source.source] ?? new Map(), range, view, chosen));
  keepFocus(place, () => place.replaceChildren(el("div", { class: "scroll" }, el("table", { class: "sources" }, el("caption", { class: "skip" }, "Sources"), el("thead", {}, el("tr", {}, heads)), el("tbody", {}, rows)))));
}

function sourceRow(source, hours, range, view, chosen) {
  const { source: name } = source;
  const isChosen = view.source === name;
  const choose = el("button", { type: "button", class: "name", "data-key": name, "aria-pressed": String(isChosen), onclick: () => chosen(isChosen ? null : name) }, name);
  const cell = (label, content, more = {}) => el("td", { "data-label": label, ...more }, content);
  const idle = source.partitions.filter((one) => one.idle).map((one) => `${one.topic}[${one.partition}]`);
  const waits = source.waits_for.map(({ topic }) => el("span", { class: "bad", title: "the topic was deleted; it waits for a new one" }, `waits for ${topic}`));
  if (source.registry_away) waits.push(el("span", { class: "bad", title: source.registry_away.reason }, "waits for the schema registry"));
  return el("tr", { "data-source": name, class: isChosen ? "chosen" : null },
    el("th", { scope: "row" }, choose),
    cell("weakest", waits.length ? waits : weakest(source.state, source.hours)),
    cell("clock", time(source.clock), { title: idle.length ? `idle: ${idle.join(", ")}` : "UTC; it closes hours" }),
    cell("unread", source.lag === null ? "?" : figure(source.lag), { class: "n", title: source.lag_unknown ?? "records in Kafka that no finished micro-batch has read" }),
    cell("read", source.finished ? duration(Math.max(0, (Date.now() - new Date(source.finished)) / 1000)) : "–", { class: "n", title: "how long ago the newest micro-batch was finished" }),
    cell("rejected", figure(source.rejected), { class: source.rejected ? "n bad" : "n", title: `${figure(source.accepted)} accepted, ${figure(source.duplicates)} duplicates` }),
    cell("oldest open", time(source.oldest_open), { title: "the oldest hour that has not closed" }),
    el("td", { class: "hours" }, range ? hourRow(hours, range, (hour) => chosen(name, hour)) : ""));
}

// `metrics`: of the project; `states`: by metric, its state; `charted`: the names of those that have a chart.
export function drawMetrics(place, metrics, states, charted, view, toggle) {
  const of = metrics.filter(({ name, source }) => (!view.source || source === view.source) && isFound(view.find, name, source));
  const weakness = ({ name }) => (states.get(name)?.state ? Object.keys(STATES).indexOf(states.get(name).state) : -1);
  const sorted = of.sort((one, other) => (view.sort === "name" ? 0 : weakness(other) - weakness(one)) || natural(one.name, other.name));
  if (!sorted.length) return place.replaceChildren(nothing("No metric has this in its name."));
  const key = view.source ?? "";
  const shown = unfolded.has(key) ? sorted : sorted.slice(0, METRICS_SHOWN);
  const rows = shown.map((metric) => {
    const known = states.get(metric.name);
    const isCharted = charted.has(metric.name);
    return el("tr", {},
      el("th", { scope: "row" }, el("button", { type: "button", class: "name", "data-key": metric.name, "aria-pressed": String(isCharted), title: metric.description ?? null, onclick: () => toggle(metric.name) }, metric.name)),
      el("td", {}, metric.source), el("td", {}, known ? weakest(known.state, known.hours) : "–"), el("td", {}, metric.measures.map(({ name }) => name).join(", ")));
  });
  const heads = ["Metric", "Source", "Weakest state", "Measures"].map((head) => el("th", { scope: "col" }, head));
  keepFocus(place, () => {
    place.replaceChildren(el("div", { class: "scroll" }, el("table", {}, el("caption", { class: "skip" }, "Metrics"), el("thead", {}, el("tr", {}, heads)), el("tbody", {}, rows))));
    if (shown.length < sorted.length) place.append(el("button", { type: "button", class: "more", onclick: () => { unfolded.add(key); drawMetrics(place, metrics, states, charted, view, toggle); } }, `all ${figure(sorted.length)}`));
  });
}

const weakest = (name, count) => (name ? [state(name), name === "final" ? "" : ` ${figure(count)}`] : "–");

const time = (moment) => (moment ? el("span", { class: "time", title: `${dayAndHour(new Date(moment))} UTC` }, `${dateOf(new Date(moment))} ${clockTime(new Date(moment))}`) : "–");

// What had the focus has it again when the table was drawn anew.
function keepFocus(place, draw) {
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  draw();
  if (focused) place.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}
