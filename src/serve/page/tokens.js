// Tokens: what the events say about them, their text, and the number of a token that is known by its text only.

import { tokenize } from "./api.js";

/** A token is { id, name, logprob, top: [{ name, logprob }] }, the most likely alternative first. */
function token(id, name, logprob, top) {
  return { id, name, logprob, top: top.sort((a, b) => b.logprob - a.logprob) };
}

function completionTokens(choice) {
  const { tokens, token_logprobs: logprobs, top_logprobs: tops } = choice.logprobs;
  return tokens.map((name, i) => {
    const top = Object.entries(tops?.[i] ?? {}).map(([name, logprob]) => ({ name, logprob }));
    return token(choice.token_ids[i], name, logprobs[i], top);
  });
}

// Conversations have the bytes of tokens in place of names for those that are not UTF-8.
function chatName({ token, bytes }) {
  if (!token.includes("\ufffd") || !bytes) return token;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(bytes));
  } catch {
    return "bytes:" + bytes.map((byte) => "\\x" + byte.toString(16).padStart(2, "0")).join("");
  }
}

function chatTokens(choice) {
  return choice.logprobs.content.map((entry, i) => {
    const top = entry.top_logprobs.map((other) => ({ name: chatName(other), logprob: other.logprob }));
    return token(choice.token_ids[i], chatName(entry), entry.logprob, top);
  });
}

/** The tokens of one choice of an event, of either kind of completion. */
export function tokensOf(choice) {
  if (!choice.logprobs || !choice.token_ids) return [];
  const tokens = choice.logprobs.content ? chatTokens(choice) : completionTokens(choice);
  for (const { id, name } of tokens) known.set(name, id);
  return tokens;
}

/** Members of a request that make the server report what tokensOf reads. */
export const reportAlternatives = {
  completion: { logprobs: 5 },
  chat: { logprobs: true, top_logprobs: 5 },
};

// The names of tokens that are not UTF-8, such as bytes:\xe2\x82.
function bytesOf(name) {
  if (!/^bytes:(\\x[0-9a-f]{2})+$/i.test(name)) return null;
  return Uint8Array.from(name.match(/[0-9a-f]{2}(?=\\|$)/gi), (digits) => parseInt(digits, 16));
}

let namesAreNumbers = false;

/** For models without a tokenizer, whose tokens have no text. */
export function nameTokensByNumber() {
  namesAreNumbers = true;
}

/** Returns a function that maps token after token to the text that it completes: "" inside a character. */
export function textDecoder() {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  return (name) => {
    if (namesAreNumbers) return ` ${name}`;
    const bytes = bytesOf(name);
    return bytes ? decoder.decode(bytes, { stream: true }) : decoder.decode() + name;
  };
}

export function textOf(tokens) {
  const decode = textDecoder();
  return tokens.map(({ name }) => decode(name)).join("");
}

/** 0 (likely) to 4 (unlikely): the steps of the key on the page. */
export function likelihoodStep(logprob) {
  const p = Math.exp(logprob);
  return p >= 0.8 ? 0 : p >= 0.5 ? 1 : p >= 0.2 ? 2 : p >= 0.05 ? 3 : 4;
}

const known = new Map();

// A tokenizer may add a space at the start of a text or merge the token with its neighbor, so that a token is not what
// its text alone gives. Some of these texts end with the token itself.
const contexts = ["", "a", "\n", ".", " "];

/** The number of the token with this name, or null if the tokenizer does not produce it from text. */
export async function tokenId(name) {
  if (namesAreNumbers) return Number(name);
  for (const context of contexts) {
    if (known.has(name)) return known.get(name);
    if (bytesOf(name)) return null;
    const { tokens, pieces } = await tokenize({ prompt: context + name, add_special_tokens: false });
    pieces.forEach((piece, i) => piece.includes("\ufffd") || known.set(piece, tokens[i])); // bytes that are not UTF-8
  }
  return known.get(name) ?? null;
}
