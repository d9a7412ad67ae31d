// Tokens: their data in events, and their text.

/** A token is { id, name, logprob, top: [{ id, name, logprob }] }, the most likely alternative first. */
function token(id, name, logprob, top) {
  return { id, name, logprob, top: top.sort((a, b) => b.logprob - a.logprob) };
}

function completionTokens(choice) {
  const { tokens, token_logprobs: logprobs, top_logprobs: tops, top_token_ids: ids } = choice.logprobs;
  return tokens.map((name, i) => {
    const top = Object.entries(tops?.[i] ?? {}).map(([name, logprob]) => ({ id: ids[i][name], name, logprob }));
    return token(choice.token_ids[i], name, logprobs[i], top);
  });
}

function chatTokens(choice) {
  return choice.logprobs.content.map((entry, i) => {
    const top = entry.top_logprobs.map(({ token_id: id, token: name, logprob }) => ({ id, name, logprob }));
    return token(choice.token_ids[i], entry.token, entry.logprob, top);
  });
}

/** The tokens of one choice of an event, of either kind of completion. */
export function tokensOf(choice) {
  if (!choice.logprobs || !choice.token_ids) return [];
  return choice.logprobs.content ? chatTokens(choice) : completionTokens(choice);
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
