// A metric as a line: closed hours solid; what may still change dashed and lighter, with a mark of its state at each hour.

import { addHours, dayAndHour, el, figure, hourKey, hoursBetween } from "./format.js";
import { STATES } from "./states.js";

const Plotly = window.Plotly;
const MARKED = 200; // with more hours, closed ones have no marks of their own

export class MetricCard {
  constructor(metric, choose) {
    this.metric = metric;
    this.drawn = "";
    this.about = ""; // range, measure and filters that `rows` are of
    this.rows = new Map(); // by hour
    const measures = metric.measures.map(({ name }) => el("option", { value: name }, name));
    this.select = el("select", { "aria-label": `Measure of ${metric.name}`, onchange: (event) => choose.measure(metric.name, event.target.value) }, measures);
    this.value = el("p", { class: "value" });
    this.note = el("p", { class: "note" });
    this.plot = el("div", { class: "plot", role: "img" });
    this.choose = choose;
    const title = el("h3", { title: metric.description ?? null }, metric.name);
    this.element = el("article", { class: "card metric", "data-metric": metric.name }, el("div", { class: "title" }, title, metric.measures.length > 1 ? this.select : el("span", { class: "note" }, metric.measures[0].name)), this.value, this.plot, this.note);
  }

  draw({ measure, range, open, unfiltered }) {
    this.select.value = measure;
    const { rows: byHour } = this;
    const hours = Array.from({ length: hoursBetween(range.from, range.to) }, (_, index) => addHours(range.from, index));
    const points = hours.map((hour) => ({ hour, state: byHour.get(hourKey(hour))?.state ?? null, value: asNumber(byHour.get(hourKey(hour))?.[measure]) }));
    const newest = points.findLast((point) => point.value !== null);
    this.value.replaceChildren(...(newest ? [el("strong", {}, figure(newest.value)), el("span", { class: `state ${newest.state}` }, newest.state), el("span", { class: "note" }, dayAndHour(newest.hour))] : [el("span", { class: "note" }, "no values in these hours")]));
    const unsettled = points.filter((point) => point.value !== null && point.state !== "final").length;
    this.note.textContent = [this.metric.description, this.metric.window ? `shown by the hour; its windows are ${this.metric.window}` : null, unfiltered.length ? `not filtered by ${unfiltered.join(", ")}, which it does not have` : null].filter(Boolean).join("; ");
    this.plot.setAttribute("aria-label", newest ? `${measure} of ${this.metric.name} by hour, newest ${figure(newest.value)}; ${unsettled} of ${byHour.size} hours may still change` : `${measure} of ${this.metric.name}: no values`);
    this.redraw = () => this.render(points, measure, range, open);
    this.redraw();
  }

  redraw() {} // until there is something to draw

  render(points, measure, range, open) {
    const colours = palette();
    const drawn = JSON.stringify([points, measure, range, open, colours, this.plot.clientWidth]);
    if (drawn === this.drawn) return; // nothing to redraw, most of the time
    this.drawn = drawn;
    const first = !this.plot.classList.contains("js-plotly-plot");
    Plotly.react(this.plot, traces(points, measure, colours), layout(range, open, colours), { displayModeBar: false, responsive: true, scrollZoom: false });
    if (first) this.plot.on("plotly_click", ({ points: [point] }) => this.choose.hour(new Date(`${point.x.slice(0, 16).replace(" ", "T")}Z`)));
  }
}

// Each segment that touches an hour which may still change is dashed.
function traces(points, measure, colours) {
  const x = points.map((point) => plotTime(point.hour));
  const closed = points.map((point) => (point.state === "final" ? point.value : null));
  const loose = (point) => point?.value !== null && point?.value !== undefined && point.state !== "final";
  const open = points.map((point, index) => (loose(point) || loose(points[index - 1]) || loose(points[index + 1]) ? point.value : null));
  const marks = points.filter(loose);
  const text = (point) => `${dayAndHour(point.hour)}<br><b>${figure(point.value)}</b> ${point.state}`;
  const hover = { hovertemplate: "%{text}<extra></extra>" };
  return [
    { x, y: closed, text: points.map(text), ...hover, name: "final", mode: points.length > MARKED ? "lines" : "lines+markers", line: { color: colours.final, width: 2 }, marker: { size: 3.5, color: colours.final } },
    { x, y: open, hoverinfo: "skip", name: "may change", mode: "lines", line: { color: colours.provisional, width: 2, dash: "3px,3px" } },
    { x: marks.map((point) => plotTime(point.hour)), y: marks.map((point) => point.value), text: marks.map(text), ...hover, name: "not final", mode: "markers",
      marker: { size: 7, symbol: marks.map((point) => STATES[point.state]?.symbol ?? "circle"), color: marks.map((point) => colours[point.state] ?? colours.provisional), line: { width: 1.5, color: marks.map((point) => colours[point.state] ?? colours.provisional) } } },
  ];
}

function layout(range, open, colours) {
  const axis = { gridcolor: colours.edge, linecolor: colours.edge, zeroline: false, tickfont: { size: 11 }, fixedrange: true, automargin: true };
  const line = open && { type: "line", xref: "x", yref: "paper", x0: plotTime(open), x1: plotTime(open), y0: 0, y1: 1, line: { color: colours.text, width: 1, dash: "dot" } };
  return {
    height: 190, margin: { l: 8, r: 8, t: 6, b: 8 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false,
    font: { family: getComputedStyle(document.body).fontFamily, color: colours.muted, size: 11 },
    xaxis: { ...axis, type: "date", range: [plotTime(addHours(range.from, -0.5)), plotTime(addHours(range.to, -0.5))], showgrid: false, ticks: "outside", tickcolor: colours.edge, nticks: 6, tickformatstops: [{ dtickrange: [null, 43200000], value: "%H:%M\n%-d %b" }, { dtickrange: [43200000, null], value: "%-d %b" }] },
    yaxis: { ...axis, rangemode: "tozero", nticks: 5, tickformat: ",~g", separatethousands: true },
    hovermode: "closest", hoverdistance: 40, hoverlabel: { bgcolor: colours.card, bordercolor: colours.edge, font: { color: colours.text, size: 12 }, align: "left" },
    shapes: line ? [line] : [], dragmode: false,
  };
}

function palette() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(["text", "muted", "edge", "card", "final", "provisional", "revised", "incomplete", "blocked", "missing"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

const plotTime = (moment) => moment.toISOString().slice(0, 16).replace("T", " "); // plotly knows no zones: what it is given, it shows
const asNumber = (value) => (value === null || value === undefined || value === "" || Number.isNaN(Number(value)) ? null : Number(value));
