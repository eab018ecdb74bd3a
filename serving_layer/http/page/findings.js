// What is found of the sources and the speed layer: it belongs to no hour, so it stands above all hours.

import { dayAndHour, el } from "./format.js";

export function drawFindings(place, findings) {
  place.hidden = !findings.length;
  place.replaceChildren(...findings.map((one) => el("li", { class: one.severity },
    el("p", {}, el("b", {}, `${one.source ?? "speed layer"}: `), one.sentence),
    el("p", { class: "note" }, `${one.severity}, ${dayAndHour(new Date(one.first))} to ${dayAndHour(new Date(one.last))} UTC; `, one.remedy, one.example ? `; for example ${one.example}` : ""))));
}
