// A metric as a line: what is final solid; what may still change dashed and lighter, with a mark of its state. A point is
// an hour, or a window where the metric has others. A measure that is no number is a list of its values.

import { addHours, dayAndHour, el, figure, measured } from "./format.js";
import { folded, hourLink, state } from "./panels.js";
import { MOST_WINDOWS, hasWindows, isNumeric } from "./series.js";
import { STATES } from "./states.js";

let library = null; // the charts' library, once a chart wants it

function loadLibrary() {
  library ??= new Promise((done, fail) => document.head.append(el("script", { src: document.documentElement.dataset.plotly, onload: () => done(window.Plotly), onerror: fail })));
  return library;
}

const MARKED = 200; // with more points, final ones have no marks of their own

export class MetricCard {
  constructor(metric, choose) {
    this.metric = metric;
    this.windowed = hasWindows(metric);
    this.drawn = "";
    this.about = ""; // range, measure and filters that `points` are of
    this.points = []; // in order of their starts; see series.js
    const measures = metric.measures.map(({ name }) => el("option", { value: name }, name));
    this.select = el("select", { "aria-label": `Measure of ${metric.name}`, onchange: (event) => choose.measure(metric.name, event.target.value) }, measures);
    this.value = el("p", { class: "value" });
    this.note = el("p", { class: "note" });
    this.plot = el("div", { class: "plot", role: "img" });
    this.list = el("div", { class: "list", hidden: true });
    this.choose = choose;
    const title = el("h3", { title: metric.description ?? null }, metric.name);
    this.element = el("article", { class: "card metric", "data-metric": metric.name }, el("div", { class: "title" }, title, metric.measures.length > 1 ? this.select : el("span", { class: "note" }, metric.measures[0].name)), this.value, this.plot, this.list, this.note);
  }

  // `points` take the place of those that share time with `part`, or of all.
  replace(points, part) {
    const kept = part ? this.points.filter(({ start, end }) => end <= part.from || start >= part.to) : [];
    this.points = [...kept, ...points].sort((one, other) => one.start - other.start).slice(this.windowed ? -MOST_WINDOWS : 0);
  }

  draw({ measure, range, open, unfiltered }) {
    this.select.value = measure.name;
    const { points } = this;
    const valued = points.filter(({ value }) => value !== null);
    // Of windows that overlap, those that have just begun say little yet.
    const overlap = points.length > 1 && points[0].end > points[1].start;
    const newest = (overlap && valued.findLast(({ end }) => end <= range.to)) || valued.at(-1);
    const known = points.filter(({ state }) => state !== null).length;
    const unsettled = valued.filter(({ state }) => state !== "final").length;
    const unit = this.windowed ? "window" : "hour";
    const window = this.windowed ? `windows of ${this.metric.window}${points.length === MOST_WINDOWS ? `, the newest ${figure(MOST_WINDOWS)}` : ""}` : this.metric.sessions ? `shown by the hour; \`FROM ${this.metric.name}\` lists its ${this.metric.window}` : null;
    this.value.replaceChildren(...(newest ? [el("strong", {}, measured(newest.value, measure.type)), el("span", { class: `state ${newest.state}` }, newest.state), el("span", { class: "note" }, this.timeText(newest))] : [el("span", { class: "note" }, `no values in these ${unit}s`)]));
    this.note.textContent = [this.metric.description, measure.error && `${measure.name} is an estimate, ${measure.error}`, window, unfiltered.length ? `not filtered by ${unfiltered.join(", ")}, which it does not have` : null].filter(Boolean).join("; ");
    const about = `${measure.name} of ${this.metric.name}`;
    this.plot.setAttribute("aria-label", newest ? `${about} by ${unit}, newest ${figure(newest.value)}; ${unsettled} of ${known} ${unit}s may still change` : `${about}: no values`);
    const numeric = isNumeric(measure);
    this.plot.hidden = !numeric;
    this.list.hidden = numeric;
    this.redraw = () => (numeric ? this.render(points, measure, range, open) : this.tell(valued, measure, about));
    this.redraw();
  }

  timeText({ start, end }) {
    return this.windowed ? `${dayAndHour(start)} to ${dayAndHour(end)}` : dayAndHour(start);
  }

  hoverText(point) {
    const weakest = point.weakest ? `<br>weakest hour ${dayAndHour(point.weakest)}` : this.windowed && point.state === "provisional" ? "<br>hours are still to come" : "";
    return `${this.timeText(point)}<br><b>${figure(point.value)}</b> ${point.state}${weakest}`;
  }

  open(start) {
    if (this.windowed) this.choose.window(this.metric.name, start);
    else this.choose.hour(start);
  }

  redraw() {} // until there is something to draw

  // The newest first.
  tell(points, measure, about) {
    const drawn = JSON.stringify([points, measure]);
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    const link = hourLink((start) => this.open(start));
    const rows = points.toReversed().map((point) => [link(point.start), state(point.state), measured(point.value, measure.type)]);
    this.list.replaceChildren(rows.length ? folded([this.windowed ? "From" : "Hour", "State", measure.name], rows, `Values of ${about}`) : "");
  }

  async render(points, measure, range, open) {
    const Plotly = await loadLibrary();
    const colours = palette();
    const drawn = JSON.stringify([points, measure, range, open, colours, this.plot.clientWidth]);
    if (drawn === this.drawn) return; // nothing to redraw, most of the time
    this.drawn = drawn;
    const first = !this.plot.classList.contains("js-plotly-plot");
    Plotly.react(this.plot, traces(points, (point) => this.hoverText(point), colours), layout(this.edges(points, range), open, colours), { displayModeBar: false, responsive: true, scrollZoom: false });
    if (first) this.plot.on("plotly_click", ({ points: [{ customdata }] }) => this.open(new Date(customdata)));
  }

  // The first and last time of the chart: windows may begin before the range, and after it has ended there is nothing.
  edges(points, { from, to }) {
    const starts = this.windowed ? points.map(({ start }) => start) : [];
    return [addHours(new Date(Math.min(from, ...starts)), -0.5), addHours(new Date(Math.max(to, ...starts)), -0.5)];
  }
}

// Each segment that touches a point which may still change is dashed.
function traces(points, hoverText, colours) {
  const x = points.map(({ start }) => plotTime(start));
  const settled = points.map((point) => (point.state === "final" ? point.value : null));
  const loose = (point) => point?.value !== null && point?.value !== undefined && point.state !== "final";
  const open = points.map((point, index) => (loose(point) || loose(points[index - 1]) || loose(points[index + 1]) ? point.value : null));
  const marks = points.filter(loose);
  const told = (some) => ({ text: some.map(hoverText), customdata: some.map(({ start }) => start.getTime()), hovertemplate: "%{text}<extra></extra>" });
  return [
    { x, y: settled, ...told(points), name: "final", mode: points.length > MARKED ? "lines" : "lines+markers", line: { color: colours.final, width: 2 }, marker: { size: 3.5, color: colours.final } },
    { x, y: open, hoverinfo: "skip", name: "may change", mode: "lines", line: { color: colours.provisional, width: 2, dash: "3px,3px" } },
    { x: marks.map(({ start }) => plotTime(start)), y: marks.map((point) => point.value), ...told(marks), name: "not final", mode: "markers",
      marker: { size: 7, symbol: marks.map((point) => STATES[point.state]?.symbol ?? "circle"), color: marks.map((point) => colours[point.state] ?? colours.provisional), line: { width: 1.5, color: marks.map((point) => colours[point.state] ?? colours.provisional) } } },
  ];
}

// `open`: the hour that is open (a line), or the window (a band); null: neither.
function layout(edges, open, colours) {
  const axis = { gridcolor: colours.edge, linecolor: colours.edge, zeroline: false, tickfont: { size: 11 }, fixedrange: true, automargin: true };
  const line = open && { type: open.end ? "rect" : "line", xref: "x", yref: "paper", x0: plotTime(open.start), x1: plotTime(open.end ?? open.start), y0: 0, y1: 1, layer: "below", fillcolor: colours.edge, line: { color: colours.text, width: open.end ? 0 : 1, dash: "dot" } };
  return {
    height: 190, margin: { l: 8, r: 8, t: 6, b: 8 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false,
    font: { family: getComputedStyle(document.body).fontFamily, color: colours.muted, size: 11 },
    xaxis: { ...axis, type: "date", range: edges.map(plotTime), showgrid: false, ticks: "outside", tickcolor: colours.edge, nticks: 6, tickformatstops: [{ dtickrange: [null, 43200000], value: "%H:%M\n%-d %b" }, { dtickrange: [43200000, null], value: "%-d %b" }] },
    yaxis: { ...axis, rangemode: "tozero", nticks: 5, tickformat: ",~g", separatethousands: true },
    hovermode: "closest", hoverdistance: 40, hoverlabel: { bgcolor: colours.card, bordercolor: colours.edge, font: { color: colours.text, size: 12 }, align: "left" },
    shapes: line ? [line] : [], dragmode: false,
  };
}

function palette() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(["text", "muted", "edge", "card", "final", "provisional", "revised", "stale", "incomplete", "blocked", "missing"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

const plotTime = (moment) => moment.toISOString().slice(0, 16).replace("T", " "); // plotly knows no zones: what it is given, it shows
