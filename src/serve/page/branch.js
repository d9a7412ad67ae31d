// A branch: a prompt, the tokens that follow it, and the request that adds more.

import { stream } from "./api.js";
import { reportAlternatives, textOf, tokensOf } from "./tokens.js";

/** The start of the next message for models without a chat template. */
const plainChatStop = "\nuser:";

export class Branch {
  /**
   * prompt: { mode: "text", text }, { mode: "tokens", tokens }, or { mode: "chat", messages }.
   * source: the saved state that the prompt follows, or null.
   */
  constructor({ letter, prompt, source = null, model }) {
    this.letter = letter;
    this.prompt = prompt;
    this.source = source;
    this.model = model;
    this.promptTokens = prompt.mode === "tokens" ? prompt.tokens : null; // the server reports those of texts
    this.tokens = [];
    this.inherited = 0; // tokens that were copied from the branch it was forked from
    this.lineage = "";
    this.status = "ready"; // "running", "stop", "length", "stopped", "failed"
    this.error = null;
    this.usage = null;
    this.timing = null;
    this.controller = null;
    this.finish = null; // the finish reason from the server
  }

  get running() {
    return this.status === "running";
  }

  /** Tokens that the model has read and written; 0 until the prompt is known. */
  get context() {
    if (!this.promptTokens) return 0;
    return (this.before?.tokens ?? 0) + this.promptTokens.length + this.tokens.length;
  }

  /** The state that allTokens follow, or null: the server reports the tokens of a whole conversation, also of its state. */
  get before() {
    return this.prompt.mode === "chat" ? null : this.source;
  }

  get allTokens() {
    return [...this.promptTokens, ...this.tokens.map(({ id }) => id)];
  }

  get generatedText() {
    return textOf(this.tokens);
  }

  get promptText() {
    const { mode, text, tokens, messages } = this.prompt;
    if (mode === "chat") return messages.map(({ role, content }) => `${role}: ${content}\n`).join("");
    return mode === "tokens" ? tokens.join(" ") : text;
  }

  get fullText() {
    return (this.source?.text ?? "") + this.promptText + this.generatedText;
  }

  /** A branch with the first `length` tokens of this one; `replacement` follows them. */
  fork(letter, length, replacement) {
    const branch = new Branch({ letter, prompt: this.prompt, source: this.source, model: this.model });
    branch.promptTokens = this.promptTokens;
    branch.tokens = this.tokens.slice(0, length);
    if (replacement) branch.tokens.push(replacement);
    branch.inherited = branch.tokens.length;
    branch.lineage = `Forked from ${this.letter} at token ${replacement ? length + 1 : length}`;
    return branch;
  }

  #request(settings) {
    const body = { ...settings, return_token_ids: true, stream_options: { include_usage: true } };
    if (this.prompt.mode === "chat" && !this.promptTokens) {
      if (this.source) body.state = this.source.id;
      return ["v1/chat/completions", { ...body, ...reportAlternatives.chat, messages: this.prompt.messages }];
    }
    if (this.before) body.state = this.before.id;
    if (this.prompt.mode === "chat" && !this.model.chat_template) body.stop = [...(body.stop ?? []), plainChatStop];
    body.prompt = this.promptTokens ? this.allTokens : this.prompt.text;
    return ["v1/completions", { ...body, ...reportAlternatives.completion }];
  }

  /** Generates tokens until the model ends, stop() is called, or a request fails. `changed` is called after each event. */
  async generate(settings, changed) {
    this.#start();
    changed(this);
    try {
      const [path, body] = this.#request(settings);
      for await (const event of stream(path, body, this.controller.signal)) {
        this.#read(event);
        changed(this);
      }
      this.status = this.finish ?? "stop";
    } catch (error) {
      this.#fail(error);
    }
    this.controller = null;
    changed(this);
  }

  #start() {
    this.controller = new AbortController();
    this.status = "running";
    this.error = null;
    this.usage = null;
    this.timing = { start: performance.now(), first: null, last: null, tokens: 0 };
    this.finish = null;
  }

  #read(event) {
    if (event.usage) this.usage = event.usage;
    const choice = event.choices?.[0];
    this.promptTokens ??= event.prompt_token_ids ?? choice?.prompt_token_ids ?? null;
    if (choice) {
      const tokens = tokensOf(choice);
      this.tokens.push(...tokens);
      this.#measure(tokens.length);
    }
    if (choice?.finish_reason) this.finish = choice.finish_reason;
  }

  #measure(added) {
    if (added === 0) return;
    const now = performance.now();
    if (this.timing.first === null) this.timing.first = now;
    else this.timing.tokens += added; // those after the first event, whose time depends on the prompt
    this.timing.last = now;
  }

  #fail(error) {
    if (error.name === "AbortError") {
      this.status = "stopped";
      return;
    }
    this.status = "failed";
    this.error = error;
  }

  stop() {
    this.controller?.abort();
  }

  /** Tokens per second after the first one, or null before there are two. */
  get speed() {
    const { start, first, last, tokens } = this.timing ?? {};
    if (!tokens) return null;
    // Tokens of a short response arrive together, so the time between them is meaningless.
    return (1000 * tokens) / (last - first < 100 ? last - start : last - first);
  }

  /** Milliseconds until the first token, or null. */
  get firstToken() {
    return this.timing?.first ? this.timing.first - this.timing.start : null;
  }
}
