// The memory chart: the size of the state and of a key-value cache as functions of the context length. Drawn as SVG.

import { bytes, count, plural } from "./format.js";

const height = 250;
const margin = { top: 16, right: 16, bottom: 44, left: 62 };

const byId = (id) => document.getElementById(id);

export const stateBytes = (model, tokens) => model.state_bytes + model.state_bytes_per_token * tokens;
export const cacheBytes = (model, tokens) => model.kv_bytes_per_token * tokens;

function svg(name, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** The smallest of 1, 2, 5, 10, 20, … that is at least `n`. */
function roundUp(n) {
  const power = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 5, 10].map((digit) => digit * power).find((value) => value >= n * (1 - 1e-9));
}

function ticks(limit, target) {
  const step = roundUp(limit / target);
  const result = [];
  for (let i = 0; i * step <= limit * (1 + 1e-9); i++) result.push(i * step);
  return result;
}

/** Tokens after which a key-value cache is larger than the state; null: never. */
function crossing(model) {
  const growth = model.kv_bytes_per_token - model.state_bytes_per_token;
  return growth > 0 ? Math.ceil(model.state_bytes / growth) : null;
}

// Powers of two, so that the axis stays still while tokens arrive and then doubles. The start shows the crossing, if it is near.
function axisTokens(model, tokens) {
  const minimum = Math.min(Math.max(64, 1.6 * (crossing(model) ?? 0)), 1024);
  return 2 ** Math.ceil(Math.log2(Math.max(minimum, tokens * 1.05)));
}

function scales(model, tokens, width) {
  const xMax = axisTokens(model, tokens);
  const yMax = Math.max(stateBytes(model, xMax), cacheBytes(model, xMax), 1) * 1.12;
  const x = (n) => margin.left + ((width - margin.left - margin.right) * n) / xMax;
  const y = (n) => height - margin.bottom - ((height - margin.top - margin.bottom) * n) / yMax;
  return { x, y, xMax, yMax };
}

function axes({ x, y, xMax, yMax }, width) {
  const group = svg("g", { class: "axes" });
  for (const n of ticks(yMax, 6)) {
    group.append(svg("line", { class: "grid", x1: x(0), x2: x(xMax), y1: y(n), y2: y(n) }));
    group.append(svg("text", { x: x(0) - 8, y: y(n) + 4, "text-anchor": "end" }, n === 0 ? "0" : bytes(n).replace(".0 ", " ")));
  }
  const fits = ticks(xMax, Math.max(4, Math.min(10, Math.floor(width / 60))));
  for (const n of fits) group.append(svg("text", { x: x(n), y: height - margin.bottom + 18, "text-anchor": "middle" }, count(n)));
  group.append(svg("text", { x: x(xMax / 2), y: height - 6, "text-anchor": "middle", class: "axis-title" }, "Tokens of the context"));
  return group;
}

// Solid up to the current length, faint beyond it.
function curve(kind, value, tokens, { x, y, xMax }) {
  const line = (from, to, part) =>
    svg("line", { class: `curve ${kind} ${part}`, x1: x(from), y1: y(value(from)), x2: x(to), y2: y(value(to)) });
  return svg("g", {}, line(tokens, xMax, "ahead"), line(0, tokens, "reached"));
}

/** Heights of two labels at the right end of the lines, at least a line of text apart. */
function labelHeights(a, b) {
  const gap = 17;
  const above = (n) => n - 8;
  if (Math.abs(a - b) >= gap) return [above(a), above(b)];
  const top = Math.min(a, b) - 8;
  return a <= b ? [top, Math.max(a, b) + 16] : [Math.max(a, b) + 16, top];
}

function labels(model, scale) {
  const { x, y, xMax } = scale;
  const [state, cache] = labelHeights(y(stateBytes(model, xMax)), y(cacheBytes(model, xMax)));
  const inside = (n) => Math.min(Math.max(n, margin.top), height - margin.bottom - 6);
  const text = (kind, at, label) => svg("text", { class: `label ${kind}`, x: x(xMax), y: inside(at), "text-anchor": "end" }, label);
  return svg("g", {}, text("state", state, "State"), text("cache", cache, "Key-value cache"));
}

// Branches of about the same length share one label.
function mergeLetters(marks, { x }) {
  const sorted = marks.filter(({ tokens }) => tokens > 0).sort((a, b) => b.tokens - a.tokens);
  return sorted.reduce((merged, each) => {
    const last = merged.at(-1);
    if (!last || x(last.tokens) - x(each.tokens) > 14) return [...merged, each];
    return [...merged.slice(0, -1), { ...last, letter: `${each.letter} ${last.letter}` }];
  }, []);
}

function mark(model, { letter, tokens }, { x, y }) {
  const state = y(stateBytes(model, tokens));
  const cache = y(cacheBytes(model, tokens));
  return svg(
    "g",
    { class: "mark" },
    svg("line", { class: "link", x1: x(tokens), x2: x(tokens), y1: state, y2: cache }),
    svg("circle", { class: "dot state", cx: x(tokens), cy: state, r: 4.5 }),
    svg("rect", { class: "dot cache", x: x(tokens) - 4, y: cache - 4, width: 8, height: 8 }),
    svg("text", { class: "letter", x: x(tokens), y: Math.min(state, cache) - 9, "text-anchor": "middle" }, letter),
  );
}

function note(model) {
  if (model.state_bytes_per_token > 0 && model.state_bytes_per_token >= model.kv_bytes_per_token)
    return `This model keeps the keys and values of all tokens: its state grows by ${bytes(model.state_bytes_per_token)} per token.`;
  const equal = crossing(model);
  if (model.state_bytes_per_token > 0)
    return `The state of this model grows by ${bytes(model.state_bytes_per_token)} per token. ` +
      `A key-value cache of the same shape grows by ${bytes(model.kv_bytes_per_token)} per token.`;
  if (equal === null) return "";
  return `The state has ${bytes(model.state_bytes)} at any length. A key-value cache of a softmax model of the same shape ` +
    `needs ${bytes(model.kv_bytes_per_token)} per token, and more than the state after ${plural(equal, "token")}.`;
}

function describe(model, tokens) {
  return `Memory at ${plural(tokens, "token")}: the state of this model needs ${bytes(stateBytes(model, tokens))}, ` +
    `a key-value cache would need ${bytes(cacheBytes(model, tokens))}.`;
}

/** marks: { letter, tokens } of each branch. The legend has the values of the longest one. */
export function drawChart(model, marks) {
  const container = byId("chart");
  const width = Math.max(240, container.clientWidth);
  const tokens = Math.max(0, ...marks.map((mark) => mark.tokens));
  const scale = scales(model, tokens, width);
  const drawing = svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": describe(model, tokens) },
    axes(scale, width),
    curve("cache", (n) => cacheBytes(model, n), tokens, scale),
    curve("state", (n) => stateBytes(model, n), tokens, scale),
    labels(model, scale),
    ...mergeLetters(marks, scale).map((each) => mark(model, each, scale)),
  );
  container.replaceChildren(drawing);
  byId("memory-state").textContent = bytes(stateBytes(model, tokens));
  byId("memory-cache").textContent = tokens ? `${bytes(cacheBytes(model, tokens))} at ${plural(tokens, "token")}` : "0 bytes";
  byId("memory-note").textContent = note(model);
}
