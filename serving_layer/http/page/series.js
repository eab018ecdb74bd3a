// The points of a metric: one for each hour, or for each window where the metric has others. Sessions are of a
// group, and overlap at will: a metric of sessions is drawn by the hour.

import { get } from "./api.js";
import { addHours, hourKey, hoursBetween } from "./format.js";

export const MOST_WINDOWS = 1000; // of those that a range touches, the newest are drawn

export const hasWindows = (metric) => metric.window !== null && !metric.sessions;

// Whether a line can show the values of a measure: numbers, and true and false as 1 and 0.
export const isNumeric = ({ type }) => /^(\w*INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL\(.*\)|BOOLEAN)$/.test(type);

// What a metric shows until somebody chooses.
export const usualMeasure = ({ measures }) => measures.find(isNumeric) ?? measures[0];

const iso = (moment) => `${moment.toISOString().slice(0, 19)}Z`;
const hourOf = (moment) => new Date(hourKey(moment));

// The rows of a metric by these parameters, of all pages or of the first.
export async function rowsOf(metric, parameters, all = true) {
  const rows = [];
  const path = `metrics/${encodeURIComponent(metric)}`;
  let answer = await get(path, parameters);
  for (rows.push(...answer.rows); all && answer.next; rows.push(...answer.rows)) answer = await get(path, new URL(answer.next, location.origin).searchParams);
  return rows;
}

// Each point: start, end, state (null: no row), value (of a numeric measure, a number), weakest (the hour that a
// window's state comes from; null: none).
export function pointsOf(metric, measure, { from, to }, where) {
  const common = [["dimension", ""], ["measure", measure.name], ...where];
  return hasWindows(metric) ? windowPoints(metric.name, measure, { from, to }, common) : hourPoints(metric.name, measure, { from, to }, common);
}

async function hourPoints(metric, measure, { from, to }, common) {
  const rows = await rowsOf(metric, [["from", iso(from)], ["to", iso(to)], ["grain", "hour"], ...common]);
  const byHour = new Map(rows.map((row) => [hourKey(new Date(row.hour)), row]));
  return Array.from({ length: hoursBetween(from, to) }, (_, index) => {
    const start = addHours(from, index);
    const row = byHour.get(hourKey(start));
    return { start, end: addHours(start, 1), state: row?.state ?? null, value: valueIn(row, measure), weakest: null };
  });
}

async function windowPoints(metric, measure, { from, to }, common) {
  const { windows } = await get(`metrics/${encodeURIComponent(metric)}/windows`, [["from", iso(from)], ["to", iso(to)], ["limit", MOST_WINDOWS]]);
  if (!windows.length) return [];
  const points = windows.reverse().map((one) => ({ start: new Date(one.window_start), end: new Date(one.window_end), state: one.state, value: null, weakest: one.weakest_hour && new Date(one.weakest_hour) }));
  const span = [["from", iso(hourOf(points[0].start))], ["to", iso(addHours(hourOf(points.at(-1).start), 1))]];
  const byStart = new Map(points.map((point) => [point.start.getTime(), point]));
  for (const row of await rowsOf(metric, [...span, ["grain", "window"], ...common])) {
    const point = byStart.get(new Date(row.window_start).getTime());
    if (point) point.value = valueIn(row, measure);
  }
  return points;
}

const valueIn = (row, measure) => (isNumeric(measure) ? asNumber(row?.[measure.name]) : (row?.[measure.name] ?? null));
const asNumber = (value) => (value === null || value === undefined || value === "" || Number.isNaN(Number(value)) ? null : Number(value));
