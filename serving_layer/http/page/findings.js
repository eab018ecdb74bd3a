// What is found of the sources and the speed layer: it belongs to no hour, so it stands above all hours.

import { dayAndHour, el, figure } from "./format.js";

const SHOWN = 5;
let all = false; // what somebody has unfolded stays so when it is drawn again

// `findings`: those that fail first.
export function drawFindings(place, findings) {
  place.hidden = !findings.length;
  const shown = all ? findings : findings.slice(0, SHOWN);
  place.replaceChildren(...shown.map((one) => el("li", { class: one.severity },
    el("p", {}, el("b", {}, `${one.source ?? "speed layer"}: `), one.sentence),
    el("p", { class: "note" }, `${one.severity}, ${dayAndHour(new Date(one.first))} to ${dayAndHour(new Date(one.last))} UTC; `, one.remedy, one.example ? `; for example ${one.example}` : ""))));
  const unfold = () => { all = true; drawFindings(place, findings); };
  if (shown.length < findings.length) place.append(el("li", { class: "rest" }, el("button", { type: "button", class: "more", onclick: unfold }, `all ${figure(findings.length)} findings`)));
}
