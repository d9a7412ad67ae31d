// Formats numbers and tokens for display.

const counts = new Intl.NumberFormat("en-US");

export const count = (n) => counts.format(n);

export const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

/** Bytes as the program prints them: decimal units, at least two digits. */
export function bytes(n) {
  const units = ["bytes", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  while (n >= 999.5 && unit + 1 < units.length) {
    n /= 1000;
    unit++;
  }
  const digits = unit > 0 && n < 9.95 ? 1 : 0;
  return `${n.toFixed(digits)} ${units[unit]}`;
}

export function parameters(n) {
  const units = ["", " thousand", " million", " billion"];
  let unit = 0;
  while (n >= 999.5 && unit + 1 < units.length) {
    n /= 1000;
    unit++;
  }
  return `${Number(n.toPrecision(3))}${units[unit]}`;
}

export function seconds(milliseconds) {
  return milliseconds < 999.5 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(2)} s`;
}

export function percent(probability) {
  const p = 100 * probability;
  if (p >= 99.95) return "100%";
  if (p >= 10) return `${p.toFixed(1)}%`;
  if (p >= 0.01) return `${p.toPrecision(2)}%`;
  return "below 0.01%";
}

/** A token with its white space made visible. */
export function visible(text) {
  if (text === "") return "(empty)";
  if (text.startsWith("bytes:")) return text.slice(6);
  return text.replace(/\n/g, "↵").replace(/\t/g, "⇥").replace(/\r/g, "␍").replace(/ /g, "␣");
}

const spokenNames = { " ": "space", "\n": "line break", "\t": "tab", "": "empty token" };

/** The text of a token for screen readers. */
export function screenReaderText(text) {
  if (text in spokenNames) return spokenNames[text];
  if (text.startsWith("bytes:")) return "part of a character";
  return text.trim() || "white space";
}

/** The end of a text, cut at a word. */
export function tail(text, length) {
  const line = text.trim().replace(/\s+/g, " ");
  if (line.length <= length) return line;
  const end = line.slice(-length);
  const space = end.indexOf(" ");
  return "…" + (space >= 0 && space < length / 2 ? end.slice(space + 1) : end);
}
