// The hours of a source in one row: a path for each state, whatever the number of hours. A click opens an hour.

import { addHours, dayAndHour, hourKey, hoursBetween } from "./format.js";
import { STATES } from "./states.js";

const SVG = "http://www.w3.org/2000/svg";

// `hours`: by hour (ISO, to the minute), what is known of it. `open` is told the hour that was clicked.
export function hourRow(hours, { from, to }, open) {
  const count = hoursBetween(from, to);
  const states = Array.from({ length: count }, (_, index) => hours.get(hourKey(addHours(from, index)))?.state ?? null);
  const picture = node("svg", { class: "row", viewBox: `0 0 ${count} 1`, preserveAspectRatio: "none", role: "img", "aria-label": inWords(states) });
  for (const state of Object.keys(STATES)) {
    const path = runs(states, state).map(([first, length]) => `M${first} 0h${length}v1h-${length}z`).join("");
    if (path) picture.append(node("path", { class: state, d: path }));
  }
  const title = node("title", {});
  picture.append(title);
  const at = (event) => Math.max(0, Math.min(count - 1, Math.floor((event.offsetX / picture.clientWidth) * count)));
  picture.addEventListener("mousemove", (event) => { title.textContent = `${dayAndHour(addHours(from, at(event)))}: ${states[at(event)] ?? "no hour of this source"}`; });
  picture.addEventListener("click", (event) => states[at(event)] && open(addHours(from, at(event))));
  return picture;
}

// `70 final, 2 provisional`
function inWords(states) {
  const told = Object.keys(STATES).map((state) => [states.filter((one) => one === state).length, state]).filter(([count]) => count);
  return told.length ? told.map(([count, state]) => `${count} ${state}`).join(", ") : "no hours";
}

// Where the state begins, and how long it stays, each time.
function runs(states, state) {
  const found = [];
  states.forEach((one, index) => {
    if (one !== state) return;
    if (states[index - 1] === state) found.at(-1)[1] += 1;
    else found.push([index, 1]);
  });
  return found;
}

function node(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
