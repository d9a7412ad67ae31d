// Requests to the server, and their errors.

import { rememberedKey, rememberKey } from "./store.js";

/** A failure that is shown to the user. `param` names the wrong member of the request, if there is one. */
export class ApiError extends Error {
  constructor(message, { status = 0, param = null } = {}) {
    super(message);
    this.status = status;
    this.param = param;
  }
}

let key = rememberedKey();
let requestKey = async () => null;
let openDialog = null;

/** showDialog(message) shows a dialog; it resolves to a key, or to null if the user declines. */
export function onKeyNeeded(showDialog) {
  requestKey = showDialog;
}

/** Requests that are refused at the same time share one dialog. */
export function newKey(message) {
  openDialog ??= requestKey(message)
    .then((entered) => {
      if (entered === null) return false;
      key = entered;
      rememberKey(key);
      return true;
    })
    .finally(() => {
      openDialog = null;
    });
  return openDialog;
}

function headers(body) {
  const result = {};
  if (key) result.Authorization = `Bearer ${key}`;
  if (body !== undefined && !(body instanceof Blob)) result["Content-Type"] = "application/json";
  return result;
}

async function send(method, path, body, signal) {
  try {
    return await fetch(path, {
      method,
      headers: headers(body),
      body: body === undefined || body instanceof Blob ? body : JSON.stringify(body),
      signal,
    });
  } catch (error) {
    throw connectionError(error);
  }
}

function connectionError(error) {
  if (error.name === "AbortError" || error instanceof ApiError) return error;
  if (error instanceof SyntaxError) return new ApiError("The server's response is not JSON.");
  return new ApiError("The server cannot be reached. Check that it is running, and try again.");
}

async function errorOf(response) {
  let error = {};
  try {
    error = (await response.json()).error ?? {};
  } catch {
    // A proxy between page and server may respond with other bodies.
  }
  let message = error.message ?? `The server responded with status ${response.status}.`;
  const wait = response.headers.get("Retry-After");
  if (response.status === 429 && wait) message += ` Try again in ${wait} s.`;
  return new ApiError(message, { status: response.status, param: error.param ?? null });
}

/** Resolves to a successful response; requests the API key from the user if the server needs one. */
async function request(method, path, { body, signal } = {}) {
  for (;;) {
    const used = key;
    const response = await send(method, path, body, signal);
    if (response.ok) return response;
    const error = await errorOf(response);
    if (response.status !== 401) throw error;
    const message = used ? "The server refused this key." : "This server needs an API key.";
    if (used === key && !(await newKey(message))) throw error;
  }
}

async function json(method, path, options) {
  const response = await request(method, path, options);
  try {
    return await response.json();
  } catch (error) {
    throw connectionError(error);
  }
}

export const usesKey = () => key !== "";

export const models = () => json("GET", "v1/models");
export const keepState = (body) => json("POST", "v1/states", { body });
export const dropState = (id) => json("DELETE", `v1/states/${id}`);
export const uploadState = (id, file) => json("PUT", `v1/states/${id}`, { body: file });
export const downloadState = async (id) => (await request("GET", `v1/states/${id}`)).blob();

// A fast server always has more data to read. Without a pause, the page would neither draw nor process the Stop button.
const maxBlocking = 20; // milliseconds

async function pauseAfter(start) {
  if (performance.now() - start < maxBlocking) return start;
  await new Promise((resolve) => setTimeout(resolve));
  return performance.now();
}

/** The data of server-sent events; an event may arrive in pieces, and several may arrive at once. */
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  let start = performance.now();
  for (;;) {
    start = await pauseAfter(start);
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (pending + value).split(/\r?\n\r?\n/);
    pending = parts.pop();
    for (const part of parts) {
      const lines = part.split(/\r?\n/).filter((line) => line.startsWith("data:"));
      if (lines.length) yield lines.map((line) => line.slice(5).trimStart()).join("\n");
    }
  }
}

/** Yields the JSON of each event until [DONE]. */
export async function* stream(path, body, signal) {
  const response = await request("POST", path, { body: { ...body, stream: true }, signal });
  try {
    for await (const data of events(response)) {
      if (data === "[DONE]") return;
      const event = JSON.parse(data);
      if (event.error) throw new ApiError(event.error.message, { param: event.error.param ?? null });
      yield event;
    }
  } catch (error) {
    throw connectionError(error);
  }
  throw new ApiError("The server ended the response early.");
}
