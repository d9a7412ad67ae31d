// The editor of the prompt: a text, or the messages of a conversation.

import { plural } from "./format.js";
import { remember, remembered } from "./store.js";

const byId = (id) => document.getElementById(id);
const text = byId("prompt-text");
const messages = byId("messages");
const template = byId("message-template");

let source = null; // the saved state that the prompt follows
let readsTokens = false; // the model has no tokenizer

const mode = () => document.querySelector("#mode input:checked").value;

function messageList() {
  return [...messages.children].map((item) => ({
    role: item.querySelector(".role").value,
    content: item.querySelector(".message-text").value,
  }));
}

function save() {
  remember("prompt", { mode: mode(), text: text.value, messages: messageList() });
}

function addMessage({ role, content }) {
  const item = template.content.firstElementChild.cloneNode(true);
  item.querySelector(".role").value = role;
  item.querySelector(".message-text").value = content;
  item.querySelector(".remove").addEventListener("click", () => {
    const next = item.nextElementSibling ?? item.previousElementSibling ?? byId("add-message").parentElement;
    item.remove();
    if (!messages.children.length) addMessage({ role: "user", content: "" });
    (next.querySelector(".message-text") ?? byId("add-message")).focus();
    save();
  });
  messages.append(item);
  return item.querySelector(".message-text");
}

function nextRole() {
  const last = messages.lastElementChild?.querySelector(".role").value;
  return last === "user" ? "assistant" : "user";
}

function showMode() {
  const chat = mode() === "chat";
  byId("text-editor").hidden = chat;
  byId("chat-editor").hidden = !chat;
}

function showSource() {
  byId("source").hidden = source === null;
  if (!source) return;
  byId("source-name").textContent = source.name;
  byId("source-size").textContent = source.tokens ? `(${plural(source.tokens, "token")})` : "";
}

function tokenNumbers() {
  const numbers = text.value.split(/[\s,]+/).filter((number) => number !== "");
  const wrong = numbers.find((number) => !/^\d+$/.test(number));
  if (wrong !== undefined)
    throw new Error(`This model has no tokenizer: write the numbers of tokens, such as "12 7 300". "${wrong}" is not a number.`);
  return numbers.map(Number);
}

/** What the user wrote, as a prompt of a branch. Throws an Error with a message for the user. */
export function currentPrompt() {
  if (mode() === "chat") return { mode: "chat", messages: messageList() };
  return readsTokens ? { mode: "tokens", tokens: tokenNumbers() } : { mode: "text", text: text.value };
}

export const currentSource = () => source;

/** Lets the next prompt follow a saved state. null: it starts from nothing. */
export function setSource(state) {
  source = state;
  showSource();
  if (state) (mode() === "chat" ? messages.querySelector(".message-text:last-of-type") : text).focus();
}

/** Replaces the conversation, and adds an empty message. */
export function replyTo(conversation) {
  messages.replaceChildren();
  conversation.forEach(addMessage);
  addMessage({ role: "user", content: "" }).focus();
  save();
}

/** Adapts the editor to a model without a tokenizer, whose prompts are numbers. */
export function useTokenNumbers() {
  readsTokens = true;
  byId("mode").hidden = true;
  byId("mode").querySelector("input[value=text]").checked = true;
  byId("prompt-label").textContent = "Numbers of tokens to continue";
  text.placeholder = "Numbers of tokens, such as 12 7 300";
  showMode();
}

/** Restores the prompt of the last visit. */
export function startPrompt() {
  const last = remembered("prompt", { mode: "text", text: "", messages: [] });
  text.value = last.text;
  (last.messages.length ? last.messages : [{ role: "user", content: "" }]).forEach(addMessage);
  byId("mode").querySelector(`input[value=${last.mode === "chat" ? "chat" : "text"}]`).checked = true;
  showMode();
  byId("mode").addEventListener("change", showMode);
  byId("prompt-form").addEventListener("input", save);
  byId("add-message").addEventListener("click", () => {
    addMessage({ role: nextRole(), content: "" }).focus();
    save();
  });
  byId("source-clear").addEventListener("click", () => setSource(null));
}
