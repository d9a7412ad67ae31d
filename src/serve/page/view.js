// The view of a branch: its text with one element per token, its statistics and its buttons.

import { screenReaderText, count, percent, plural, seconds } from "./format.js";
import { likelihoodStep, textDecoder } from "./tokens.js";

const statusTexts = {
  ready: "",
  running: "Generating…",
  stop: "Finished: end of text",
  length: "Finished: token limit",
  stopped: "Stopped",
  failed: "Failed",
};

const template = document.getElementById("branch-template");

function tokenElement(token, index, text) {
  const element = document.createElement("span");
  element.className = `token p${likelihoodStep(token.logprob)}`;
  if (text.includes("\n")) element.classList.add("newline");
  if (text === "") element.classList.add("partial");
  element.textContent = text;
  element.tabIndex = index === 0 ? 0 : -1; // one stop of the Tab key; arrow keys move inside the text
  element.dataset.index = index;
  element.setAttribute("role", "button");
  element.setAttribute("aria-haspopup", "dialog");
  element.setAttribute("aria-label", `${screenReaderText(token.name)}, ${percent(Math.exp(token.logprob))}`);
  return element;
}

export class BranchView {
  /** actions: close, go, halt, reply, save and copy, each called with the branch. */
  constructor(branch, actions) {
    this.branch = branch;
    this.element = template.content.firstElementChild.cloneNode(true);
    this.scrollLocked = false; // while the details of a token are shown, the text does not scroll away
    this.follows = true; // until the user scrolls up
    this.shown = 0; // tokens that are drawn
    this.drawTime = 0; // milliseconds
    this.waiting = false;
    this.decode = textDecoder();
    this.#describe();
    this.#showPrompt();
    for (const name of ["close", "go", "halt", "reply", "save", "copy"])
      this.#part(name).addEventListener("click", () => actions[name](branch));
    const scroll = this.#part("scroll");
    scroll.addEventListener("scroll", () => {
      this.follows = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 24;
    });
    this.draw();
  }

  #part(name) {
    return this.element.querySelector("." + name);
  }

  #describe() {
    const { letter, lineage } = this.branch;
    const title = this.element.querySelector("h3");
    title.textContent = `Branch ${letter}`;
    title.id = `branch-${letter}`;
    this.element.dataset.branch = letter;
    this.element.setAttribute("aria-labelledby", title.id);
    this.#part("lineage").textContent = lineage;
    this.#part("close").setAttribute("aria-label", `Close branch ${letter}`);
    this.#part("tokens").setAttribute("aria-label", `Tokens of branch ${letter}. Arrow keys move, Enter opens the choices.`);
  }

  #showPrompt() {
    const { prompt, source, promptText } = this.branch;
    if (prompt.mode !== "chat") {
      this.#part("given").textContent = (source?.text ?? "") + promptText;
      return;
    }
    this.#part("given").textContent = "";
    this.#part("conversation").hidden = false;
    if (source?.text) this.#addTurn("state", source.text);
    for (const { role, content } of prompt.messages) this.#addTurn(role, content);
    this.#addTurn("assistant", "");
  }

  #addTurn(role, content) {
    const turn = document.createElement("div");
    const name = document.createElement("p");
    const body = document.createElement("p");
    turn.className = "turn";
    name.className = "turn-role";
    name.textContent = role;
    body.textContent = content;
    turn.append(name);
    if (content) turn.append(body);
    this.#part("conversation").append(turn);
  }

  /** Draws soon, once for any number of events. The time of a layout grows with the text; most of it is left to the user. */
  update() {
    if (this.waiting) return;
    this.waiting = true;
    setTimeout(() => {
      requestAnimationFrame(() => {
        this.waiting = false;
        this.draw();
      });
    }, 3 * this.drawTime);
  }

  draw() {
    const start = performance.now();
    const scroll = this.#part("scroll");
    this.#addTokens();
    if (this.follows && !this.scrollLocked && this.branch.running) scroll.scrollTop = scroll.scrollHeight;
    this.#showStatus();
    this.#showFacts();
    this.drawTime = performance.now() - start;
  }

  #addTokens() {
    const { tokens, inherited } = this.branch;
    const added = document.createDocumentFragment();
    for (; this.shown < tokens.length; this.shown++) {
      const token = tokens[this.shown];
      const element = tokenElement(token, this.shown, this.decode(token.name));
      if (this.shown + 1 === inherited) element.classList.add("fork");
      added.append(element);
    }
    this.#part("tokens").append(added);
  }

  #showStatus() {
    const { status, error, running, tokens, promptTokens, prompt } = this.branch;
    this.element.dataset.status = status;
    this.#part("status-text").textContent = statusTexts[status];
    this.#part("error").textContent = error?.message ?? "";
    this.#part("error").hidden = error === null;
    this.#part("halt").hidden = !running;
    this.#part("go").hidden = running;
    this.#part("go").textContent = status === "failed" ? "Try again" : "Continue";
    this.#part("reply").hidden = running || prompt.mode !== "chat" || tokens.length === 0;
    this.#part("save").disabled = running || !promptTokens;
    this.#part("copy").disabled = tokens.length === 0;
    // Screen readers get the complete text, not each token as it appears.
    if (!running) this.#part("full-text").textContent = this.branch.generatedText;
  }

  #showFacts() {
    const { speed, firstToken, usage, promptTokens, context } = this.branch;
    const cached = usage?.prompt_tokens_details?.cached_tokens;
    const read = usage?.prompt_tokens ?? promptTokens?.length;
    const set = (name, value) => (this.#part(name).textContent = value);
    set("speed", speed === null ? "–" : speed < 99.5 ? speed.toFixed(1) : count(Math.round(speed)));
    set("first", firstToken === null ? "–" : seconds(firstToken));
    set("prompt-size", read === undefined ? "–" : plural(read, "token"));
    set("cached", cached === undefined ? "–" : plural(cached, "token"));
    set("context", context ? plural(context, "token") : "–");
  }
}
