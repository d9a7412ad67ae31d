// The sampling settings: members of requests that have the names of their inputs.

import { remember, remembered } from "./store.js";
import { plural } from "./format.js";

const names = ["max_tokens", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed", "stop"];

const panel = document.getElementById("settings");
const summary = document.getElementById("settings-summary");

const input = (name) => panel.querySelector(`[name="${name}"]`);

function stopTexts(text) {
  const escapes = { n: "\n", t: "\t", "\\": "\\" };
  const lines = text.split("\n").filter((line) => line !== "");
  return lines.map((line) => line.replace(/\\([nt\\])/g, (_, letter) => escapes[letter]));
}

/** The members of a request. Empty inputs are left out, so that the server uses its defaults. */
export function currentSettings() {
  const settings = {};
  for (const name of names) {
    const text = input(name).value;
    if (text === "") continue;
    settings[name] = name === "stop" ? stopTexts(text) : Number(text);
  }
  return settings;
}

/** Marks the input of a member that the server refused, and shows it. Returns whether there is one. */
export function markWrong(name, message) {
  if (!names.includes(name)) return false;
  const field = input(name);
  field.setAttribute("aria-invalid", "true");
  field.title = message;
  panel.open = true;
  return true;
}

export function clearWrong() {
  for (const name of names) {
    input(name).removeAttribute("aria-invalid");
    input(name).removeAttribute("title");
  }
}

function summarize() {
  const { max_tokens: tokens, temperature } = currentSettings();
  const parts = [];
  if (tokens !== undefined) parts.push(`up to ${plural(tokens, "token")}`);
  if (temperature !== undefined) parts.push(`temperature ${temperature}`);
  summary.textContent = parts.join(", ");
}

function save() {
  remember("settings", Object.fromEntries(names.map((name) => [name, input(name).value])));
  clearWrong();
  summarize();
}

function reset() {
  for (const name of names) input(name).value = input(name).defaultValue;
  save();
}

/** Restores the settings of the last visit. */
export function startSettings() {
  for (const [name, value] of Object.entries(remembered("settings", {}))) {
    if (names.includes(name)) input(name).value = value;
  }
  for (const name of names) input(name).addEventListener("input", save);
  document.getElementById("reset-settings").addEventListener("click", reset);
  panel.open = remembered("settings-open", window.innerWidth >= 900);
  panel.addEventListener("toggle", () => remember("settings-open", panel.open));
  summarize();
}
