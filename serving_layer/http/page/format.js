// How times, numbers and elements are written. All times are UTC.

const HOUR = 3600e3;
const number = new Intl.NumberFormat("en", { maximumSignificantDigits: 5 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const part = (options) => new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", ...options });
const weekdays = part({ weekday: "short" });
const dates = part({ day: "numeric", month: "short" });
const longDays = part({ weekday: "long", day: "numeric", month: "long", year: "numeric" });

export const addHours = (moment, count) => new Date(moment.getTime() + count * HOUR);
export const hoursBetween = (from, to) => Math.round((to - from) / HOUR);
export const hourKey = (moment) => `${moment.toISOString().slice(0, 13)}:00Z`; // 2026-03-02T09:00Z, as everywhere in Hourline
export const weekdayOf = (moment) => weekdays.format(moment);
export const dateOf = (moment) => dates.format(moment);
export const longDay = (moment) => longDays.format(moment);
export const clockTime = (moment) => moment.toISOString().slice(11, 16);
export const dayAndHour = (moment) => `${weekdayOf(moment)} ${dateOf(moment)} ${clockTime(moment)}`;

// A value of the data. A text that looks like null, like nothing or like a quoted one is in quotes, as in the commands.
export function valueText(value) {
  if (typeof value !== "string") return value === null ? "null" : typeof value === "object" ? JSON.stringify(value) : String(value);
  return value !== value.trim() || ["", "null"].includes(value.toLowerCase()) || value.startsWith("'") ? `'${value}'` : value;
}

export function figure(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string" && !/^-?\d+(\.\d+)?$/.test(value)) return valueText(value);
  const known = Number(value);
  return Number.isInteger(known) || Math.abs(known) >= 1e5 ? whole.format(typeof value === "string" && !value.includes(".") ? BigInt(value) : known) : number.format(known);
}

// A measure's value. The most frequent values come as [{"value": "JFK", "count": 3, "error": 0}, …], with numbers as text in rows.
export function measured(value, type = "") {
  if (value != null && type === "VARCHAR") return valueText(value); // "007" is no number
  if (!Array.isArray(value)) return figure(value);
  const times = ({ count, error }) => (Number(error) ? `${figure(count)} to ${figure(Number(count) + Number(error))}` : figure(count));
  return value.map((one) => (one.value === null ? `none more than ${figure(one.error)} times` : `${valueText(one.value)} ${times(one)}`)).join(", ");
}

export const signed = (value) => (value === null ? "changed" : `${value < 0 ? "−" : "+"}${figure(Math.abs(value))}`);
export const plural = (count, word) => `${figure(count)} ${word}${count === 1 ? "" : "s"}`;

export function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`;
  if (seconds < 36 * 3600) return `${number.format(Math.round(seconds / 360) / 10)} h`;
  return `${number.format(Math.round(seconds / 8640) / 10)} days`;
}

// An element with attributes (`onclick` and such are listeners) and children; text never becomes markup.
export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// A table; a header that starts with ">" is of a column of numbers.
export function table(headers, rows, caption) {
  const numeric = headers.map((header) => header.startsWith(">"));
  const cell = (name, content, index) => el(name, { class: numeric[index] ? "n" : null, scope: name === "th" ? "col" : null }, content);
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", {},
      el("thead", {}, el("tr", {}, headers.map((header, index) => cell("th", header.replace(">", ""), index)))),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map((content, index) => cell("td", content, index)))))));
}
