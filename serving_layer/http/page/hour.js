// One hour: its state, what each metric says of it, and what its audits, late events and drift were.

import { addHours, clockTime, duration, el, figure, longDay, measured, plural, signed, table } from "./format.js";
import { nothing, state } from "./panels.js";
import { STATES } from "./states.js";

const MOST_SOURCES = 4;

// `known`: of each source; `values`: by metric its row of the hour (null: none); `audits`, `late`, `causes`: of the hour alone.
export function drawHour(place, hour, { known, values, audits, late, causes }, links, close) {
  const facts = known.map(({ source, state: named, events, late: lateCount, closed }) => el("p", {}, state(named), ` ${STATES[named]?.says ?? ""} · ${plural(events, "event")}${known.length > 1 ? ` of ${source}` : ""}${lateCount ? `, ${figure(lateCount)} late` : ""} · ${closed ? "closed" : "not closed yet"}`));
  const more = facts.length - MOST_SOURCES;
  const audited = new Map(audits.map((audit) => [audit.metric, audit]));
  const rows = values.map(({ metric, row }) => {
    const audit = audited.get(metric.name);
    const outcome = audit ? el("span", { class: `outcome ${audit.outcome}` }, audit.outcome) : el("span", { class: "note" }, "not audited");
    const measures = row ? metric.measures.map(({ name, type, error }) => el("span", { class: "pair", title: error ? `an estimate, ${error}` : null }, el("span", { class: "note" }, name), ` ${measured(row[name], type)}`)) : "no events";
    return [metric.name, row ? state(row.state) : "–", measures, [outcome, " ", audit ? links.report(audit.report) : ""]];
  });
  const told = [
    ...late.map((one) => `${plural(one.events, "late event")}, up to ${duration(one.late_seconds)} behind`),
    ...causes.filter(({ cause, amount }) => cause !== "rounding" && amount !== 0).map((drift) => `${drift.metric}.${drift.measure} ${signed(drift.amount)} when recomputed: ${drift.cause}`),
  ];
  place.replaceChildren(
    el("div", { class: "title" }, el("h3", {}, `${longDay(hour)}, ${clockTime(hour)} to ${clockTime(addHours(hour, 1))} UTC`), el("button", { type: "button", class: "close", "aria-label": "Close this hour", onclick: close }, "×")),
    ...(known.length ? facts.slice(0, MOST_SOURCES) : [nothing("No source has this hour.")]),
    more > 0 ? el("p", { class: "note" }, `and ${plural(more, "more source")}; choose one to see its metrics`) : "",
    rows.length ? table(["Metric", "State", "Values", "Audit"], rows, "Metrics of this hour") : "",
    told.length ? el("ul", { class: "plain note" }, told.map((line) => el("li", {}, line))) : "");
  place.hidden = false;
}
