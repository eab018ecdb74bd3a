// The states of hours: a colour, and a sign that tells them apart without it.

export const STATES = {
  final: { sign: "", symbol: "circle", says: "recomputed, and no event has arrived since" },
  revised: { sign: "!", symbol: "diamond", says: "recomputed, and late events are counted on top" },
  provisional: { sign: "~", symbol: "circle-open", says: "computed by the speed layer alone" },
  stale: { sign: "*", symbol: "diamond-open", says: "it counts events that were taken back, or rows of a lookup have changed since it was recomputed" },
  blocked: { sign: "×", symbol: "x", says: "did not pass its audit; the previous result is shown" },
  incomplete: { sign: "…", symbol: "hourglass", says: "some of its records may be lost, and nobody has confirmed its numbers" },
  missing: { sign: "?", symbol: "circle-open-dot", says: "has no result until it is recomputed" },
};
