// The list of saved states. The server keeps the states; this browser keeps their ids, names and texts.

import { downloadState, dropState, keepState, uploadState } from "./api.js";
import { bytes, plural, tail } from "./format.js";
import { remember, remembered } from "./store.js";

const byId = (id) => document.getElementById(id);
const list = byId("states");
const template = byId("state-template");

let states = []; // { id, name, text, tokens, bytes }
let storeName; // one list per model: a state belongs to one model
let use; // called with the state to continue from
let report; // called with an error, or a text for the status

function save() {
  remember(storeName, states);
  byId("states-empty").hidden = states.length > 0;
}

function sizeOf({ tokens, bytes: size, missing }) {
  const parts = [];
  if (tokens !== undefined) parts.push(plural(tokens, "token"));
  if (size !== undefined) parts.push(bytes(size));
  if (missing) parts.push("no longer on the server");
  return parts.join(" · ");
}

function remove(state) {
  states = states.filter((other) => other !== state);
  save();
  showAll();
}

async function drop(state) {
  try {
    await dropState(state.id);
  } catch (error) {
    if (error.status !== 404) return report(error); // already deleted
  }
  remove(state);
  report(`Deleted the state ${state.name}.`);
  byId("states-title").closest("section").querySelector("button, input").focus();
}

function fileName(name) {
  return (name.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60) || "state") + ".state";
}

async function download(state) {
  try {
    const address = URL.createObjectURL(await downloadState(state.id));
    const link = document.createElement("a");
    link.href = address;
    link.download = fileName(state.name);
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  } catch (error) {
    failed(state, error);
  }
}

function failed(state, error) {
  if (error.status === 404) markMissing(state.id);
  report(error);
}

function rename(state, name) {
  state.name = name;
  save();
}

function row(state) {
  const item = template.content.firstElementChild.cloneNode(true);
  const part = (name) => item.querySelector("." + name);
  const nameId = `name-${state.id}`;
  item.dataset.state = state.id;
  item.querySelector("label").htmlFor = nameId;
  part("state-name").id = nameId;
  part("state-name").value = state.name;
  part("state-name").addEventListener("input", (event) => rename(state, event.target.value));
  part("state-size").textContent = sizeOf(state);
  part("state-text").textContent = tail(state.text, 160);
  part("state-text").hidden = state.text === "";
  for (const [name, action] of [["use", use], ["download", download], ["delete", drop]]) {
    part(name).addEventListener("click", () => action(state));
    part(name).setAttribute("aria-label", `${part(name).textContent}: ${state.name}`);
  }
  return item;
}

function showAll() {
  list.replaceChildren(...states.map(row));
}

function add(state) {
  states = [state, ...states];
  save();
  showAll();
  report(`Saved the state ${state.name}.`);
}

/** Shows that the server no longer has a state. */
export function markMissing(id) {
  const state = states.find((other) => other.id === id);
  if (!state) return;
  state.missing = true;
  save();
  showAll();
}

/** Keeps the state after a branch: after its last token, or for a conversation after its messages, where the chat template also
 * ends an unfinished reply. */
export async function saveBranch(branch) {
  const chat = branch.prompt.mode === "chat" && branch.model.chat_template;
  const reply = { role: "assistant", content: branch.generatedText };
  const body = chat ? { messages: [...branch.prompt.messages, reply] } : { prompt: branch.allTokens };
  const before = chat ? branch.source : branch.before;
  if (before) body.state = before.id;
  const { id, tokens, bytes } = await keepState(body);
  const text = branch.fullText;
  add({ id, name: tail(text, 32) || `Branch ${branch.letter}`, text, tokens, bytes });
}

function uploadId() {
  const random = crypto.getRandomValues(new Uint32Array(2));
  return "upload-" + [...random].map((n) => n.toString(16).padStart(8, "0")).join("");
}

async function upload(file) {
  try {
    const id = uploadId();
    const { tokens, bytes = file.size } = await uploadState(id, file);
    add({ id, name: file.name.replace(/\.state$/, ""), text: "", tokens, bytes });
  } catch (error) {
    report(error);
  }
}

/** Shows the states of a model that were saved in this browser. */
export function startStates(modelName, continueFrom, reportToUser) {
  storeName = `states.${modelName}`;
  use = continueFrom;
  report = reportToUser;
  states = remembered(storeName, []);
  byId("states-empty").hidden = states.length > 0;
  byId("upload").addEventListener("change", async (event) => {
    const [file] = event.target.files;
    if (file) await upload(file);
    event.target.value = ""; // so that the same file can be chosen again
  });
  showAll();
}
