// The strip of hours: a row a day, a cell an hour, in the colour and with the sign of its state. Arrow keys move, Enter opens an hour.

import { addHours, clockTime, dateOf, dayAndHour, el, hourKey, plural, weekdayOf } from "./format.js";
import { STATES } from "./states.js";

const MOVES = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -24, ArrowDown: 24 };

export function drawLegend(place) {
  place.replaceChildren(...Object.entries(STATES).map(([state, { sign, says }]) => el("li", { title: says }, el("i", { class: `cell ${state}`, "aria-hidden": "true" }, sign), state)));
}

// `hours`: by hour (ISO, to the minute), what is known of it. `chosen` is told the hour that was opened, or null.
export function drawStrip(place, source, hours, range, open, chosen) {
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset : null;
  place.replaceChildren(grid(source, hours, range, open, chosen));
  if (focused) place.querySelector(`button[data-hour="${focused.hour}"]`)?.focus({ preventScroll: true });
}

function grid(source, hours, range, open, chosen) {
  const cells = [];
  const days = [];
  const first = new Date(Date.UTC(range.from.getUTCFullYear(), range.from.getUTCMonth(), range.from.getUTCDate()));
  const entry = open && hours.has(hourKey(open)) ? hourKey(open) : [...hours.keys()].filter((hour) => hour >= hourKey(range.from) && hour < hourKey(range.to)).pop();
  for (let day = first; day < range.to; day = addHours(day, 24)) {
    const row = Array.from({ length: 24 }, (_, index) => cell(source, addHours(day, index), hours, range, open, entry, chosen));
    cells.push(...row.map((td) => td.firstChild));
    days.push(el("tr", {}, el("th", { scope: "row" }, el("span", { class: "weekday" }, `${weekdayOf(day)} `), dateOf(day)), row));
  }
  const heads = Array.from({ length: 24 }, (_, index) => el("th", { scope: "col", class: index % 3 ? "quiet" : null }, String(index).padStart(2, "0")));
  return el("table", { class: "strip", role: "grid", "aria-label": `Hours of ${source}, UTC`, onkeydown: (event) => move(event, cells) },
    el("thead", {}, el("tr", {}, el("td", {}, el("span", { class: "note" }, "UTC")), heads)), el("tbody", {}, days));
}

function cell(source, hour, hours, range, open, entry, chosen) {
  const key = hourKey(hour);
  const known = hour >= range.from && hour < range.to ? hours.get(key) : null;
  if (!known) return el("td", { class: "none" }, el("i", { class: "cell none", title: hour < range.from || hour >= range.to ? null : `${clockTime(hour)}: no hour of this source` }));
  const state = known.state ?? "none";
  const label = `${dayAndHour(hour)}: ${state}, ${plural(known.events, "event")}${known.late ? `, ${known.late} late` : ""}`;
  const isOpen = open && hourKey(open) === key;
  return el("td", {}, el("button", {
    type: "button", class: `cell ${state}`, title: label, "aria-label": label, "aria-pressed": String(isOpen), tabindex: key === entry ? "0" : "-1",
    "data-hour": key, "data-source": source, "data-state": state, onclick: () => chosen(isOpen ? null : hour),
  }, STATES[state]?.sign ?? ""));
}

function move(event, cells) {
  const at = cells.indexOf(event.target);
  const known = (index) => cells[index]?.matches("button");
  let to = -1;
  if (event.key in MOVES) for (to = at + MOVES[event.key]; to >= 0 && to < cells.length && !known(to); ) to += MOVES[event.key];
  else if (event.key === "Home") to = cells.findIndex((one) => one.matches("button"));
  else if (event.key === "End") to = cells.findLastIndex((one) => one.matches("button"));
  else return;
  event.preventDefault();
  if (!known(to)) return;
  cells[at].tabIndex = -1;
  cells[to].tabIndex = 0;
  cells[to].focus();
}
