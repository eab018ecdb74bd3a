// What is wrong, the most important first: one line each, with what to do about it.

import { dayAndHour, el, figure } from "./format.js";
import { nothing } from "./panels.js";

const SHOWN = 10;
const SIGNS = { fail: ["×", "fails"], warn: ["!", "warns"] };
let all = false; // what somebody has unfolded stays so when it is drawn again

// `links.source(name)` and `links.hour(hour, source)` are elements; `site` is the address of all audits; null: there are none.
export function drawWrong(place, note, { wrong, site }, links) {
  const fails = wrong.filter(({ severity }) => severity === "fail").length;
  note.replaceChildren(wrong.length ? `${figure(fails)} to mend, ${figure(wrong.length - fails)} to know of` : "", site ? el("span", {}, wrong.length ? " · " : "", links.report(site, "all audits")) : "");
  if (!wrong.length) return place.replaceChildren(nothing("Nothing is known to be wrong."));
  const items = (all ? wrong : wrong.slice(0, SHOWN)).map((one) => item(one, links));
  place.replaceChildren(el("ul", { class: "plain wrong" }, items));
  if (items.length < wrong.length) {
    const unfold = () => { all = true; drawWrong(place, note, { wrong, site }, links); };
    place.append(el("button", { type: "button", class: "more", onclick: unfold }, `all ${figure(wrong.length)}`));
  }
}

function item({ severity, source, metric, sentence, remedy, since, hour, example, finding }, links) {
  const [sign, says] = SIGNS[severity];
  const subject = source ? links.source(source, metric ?? source) : finding === "reports" ? "reports" : "speed layer";
  return el("li", { class: severity, title: since ? `since ${dayAndHour(new Date(since))} UTC` : null }, el("span", { class: "sign", title: says }, sign), el("span", {}, subject, `: ${sentence}`, hour ? [" · ", links.hour(hour, source)] : "", el("span", { class: "note" }, remedy ? [" · ", ...commands(remedy)] : "", example ? ` · for example ${example}` : "")));
}

// Text between backquotes is code.
const commands = (text) => text.split("`").map((part, index) => (index % 2 ? el("code", {}, part) : part));
