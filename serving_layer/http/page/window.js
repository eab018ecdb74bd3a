// One window: its state, its values, and what each of its hours contributes.

import { clockTime, dayAndHour, el, figure, longDay, measured } from "./format.js";
import { folded, state } from "./panels.js";

// `explained` is what the server tells of it; null: `trouble` says why it does not.
export function drawWindow(place, metric, start, { explained, trouble }, links, close) {
  const measures = explained ? Object.keys(explained.measures) : [];
  const rows = (explained?.hours ?? []).map((one) => [links.hour(one.hour), state(one.state), ...measures.map((name) => measured(one.measures[name]))]);
  const title = explained ? `${metric}: ${longDay(start)}, ${clockTime(start)} to ${endText(start, new Date(explained.window_end))} UTC` : `${metric}: ${dayAndHour(start)} UTC`;
  place.replaceChildren(
    el("div", { class: "title" }, el("h3", {}, title), el("button", { type: "button", class: "close", "aria-label": "Close this window", onclick: close }, "×")),
    ...(explained
      ? [
          el("p", {}, state(explained.state), ` ${hoursText(explained.hours)} · ${explained.closed ? "closed" : "not closed yet"} · windows of ${explained.window}${mergedText(explained)}`),
          el("p", {}, measures.map((name) => el("span", { class: "pair" }, el("span", { class: "note" }, name), ` ${measured(explained.measures[name])}`))),
          folded(["Hour", "State", ...measures.map((name) => `>${name}`)], rows, "What each hour of this window contributes"),
        ]
      : [el("p", { class: "note" }, trouble)]));
  place.hidden = false;
}

const endText = (start, end) => (longDay(start) === longDay(end) ? clockTime(end) : `${longDay(end)}, ${clockTime(end)}`);
const mergedText = ({ metric, merged_from: base }) => (base === metric ? "" : ` · merged from ${base}`);

// `22 final, 2 provisional`
function hoursText(hours) {
  const counts = new Map();
  for (const { state: name } of hours) counts.set(name, (counts.get(name) ?? 0) + 1);
  return `${[...counts].map(([name, count]) => `${figure(count)} ${name}`).join(", ")}${hours.length === 1 ? " hour" : " hours"}`;
}
