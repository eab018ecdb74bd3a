// Names as people read them: in their natural order, found by typing, and shortened where only a glance is wanted.

const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

export const natural = (one, other) => collator.compare(one, other) || (one < other ? -1 : one > other ? 1 : 0); // s2 before s10

// Whether each word that was typed is in one of the names.
export function isFound(typed, ...names) {
  const text = names.join(" ").toLowerCase();
  return typed.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

const LONGEST = 28; // characters of a token that are shown

// The beginning and the end of a token: the ends are what differs. Whoever copies it gets the whole.
export function shortToken(token) {
  if (token.length <= LONGEST) return token;
  const half = (LONGEST - 1) / 2;
  return `${token.slice(0, Math.ceil(half))}…${token.slice(-Math.floor(half))}`;
}
