// What stands below the metrics: running recomputations, late events, drift. Newest first, a few at first.

import { dayAndHour, duration, el, figure, signed, table } from "./format.js";

const SHOWN = 8;

export function drawWork(place, status) {
  const lines = status.recomputing.map((one) => el("li", {}, el("progress", { "aria-label": "recomputing", max: Math.max(1, one.hours), value: one.hours_done }), ` ${recomputing(one)}`));
  const waiting = [...status.changing.map(({ words }) => words), ...status.lacking.flatMap(({ words }) => words)].map((words) => el("li", {}, words));
  place.replaceChildren(lines.length || waiting.length ? el("ul", { class: "plain" }, lines, waiting) : nothing("None is running."));
}

function recomputing({ command, task, hours, hours_done, events, events_done, decoding, seconds_left }) {
  const left = seconds_left ? `, about ${duration(seconds_left)} left` : "";
  return `${task ?? command}: ${figure(hours_done)} of ${figure(hours)} hours, ${figure(events_done)} of ${figure(events)} events${left}${decoding ? `; decodes anew: ${decoding}` : ""}`;
}

export function drawLate(place, hours, range, links) {
  const shown = newest(within(hours, range));
  const several = new Set(hours.map(({ source }) => source)).size > 1;
  const rows = shown.map((late) => [links.hour(late.hour), ...(several ? [late.source] : []), figure(late.events), duration(late.late_seconds), state(late.state), moved(late.moved)]);
  place.replaceChildren(rows.length ? folded(["Hour", ...(several ? ["Source"] : []), ">Events", ">Up to", "State", "Moved"], rows, "Hours with late events") : nothing("No event has come late in this range."));
}

function moved(metrics) {
  const [first, ...others] = Object.entries(metrics).flatMap(([metric, measures]) => Object.entries(measures).map(([measure, { amount }]) => [...named(metric, measure), ` ${signed(amount)}`]));
  return first ? el("span", {}, first, others.length ? ` · ${figure(others.length)} more` : "") : "";
}

// Narrow columns break it at the dot.
const named = (metric, measure) => [`${metric}.`, el("wbr"), measure];

export function drawDrift(place, report, range, links) {
  if (!report.recomputed) return place.replaceChildren(nothing("No hour has been recomputed yet."));
  const causes = newest(within(report.causes, range)).filter(({ cause, amount }) => cause !== "rounding" && amount !== 0);
  const rows = causes.map((drift) => [links.hour(drift.hour), el("span", {}, named(drift.metric, drift.measure)), figure(drift.at_close), figure(drift.final), signed(drift.amount), el("span", { class: `cause ${drift.cause}` }, drift.cause)]);
  const unexplained = report.causes.filter(({ cause }) => cause === "unexplained").length;
  place.replaceChildren(
    el("p", { class: "counts" }, `${figure(report.changed)} of ${figure(report.recomputed)} recomputed (hours × metrics) changed in all; `, el("span", { class: unexplained ? "outcome blocked" : "" }, `${unexplained || "none"} unexplained`)),
    rows.length ? folded(["Hour", "Measure", ">Was", ">Is", ">By", "Cause"], rows, "By how much recomputed hours changed") : nothing("No recomputed hour in this range has changed."));
}

export const state = (name) => (name ? el("span", { class: `state ${name}` }, name) : "–");
export const nothing = (sentence) => el("p", { class: "note empty" }, sentence);

const within = (rows, range) => rows.filter(({ hour }) => new Date(hour) >= range.from && new Date(hour) < range.to);
const newest = (rows) => [...rows].sort((one, other) => new Date(other.hour) - new Date(one.hour));
export const reportLink = (address, text = "report") => (address ? el("a", { href: address, target: "_blank", rel: "noopener" }, text) : "");
export const hourLink = (open) => (hour) => el("a", { href: "#strip", class: "hour-link", onclick: (event) => { event.preventDefault(); open(new Date(hour)); } }, dayAndHour(new Date(hour)));

const unfolded = new Set(); // what somebody has unfolded stays so when it is drawn again
export function folded(headers, rows, caption) {
  const all = unfolded.has(caption) || rows.length <= SHOWN + 2;
  const shown = table(headers, all ? rows : rows.slice(0, SHOWN), caption);
  if (!all) shown.append(el("button", { type: "button", class: "more", onclick: () => { unfolded.add(caption); shown.replaceWith(table(headers, rows, caption)); } }, `all ${figure(rows.length)}`));
  return shown;
}
