// What the page remembers. Storage may be blocked or full; the page then works without it.

function read(storage, name, otherwise) {
  try {
    const text = storage.getItem("bochner." + name);
    return text === null ? otherwise : JSON.parse(text);
  } catch {
    return otherwise;
  }
}

function write(storage, name, value) {
  try {
    storage.setItem("bochner." + name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

export const remembered = (name, otherwise) => read(localStorage, name, otherwise);
export const remember = (name, value) => write(localStorage, name, value);

// The API key is forgotten when the tab is closed.
export const rememberedKey = () => read(sessionStorage, "key", "");
export const rememberKey = (key) => write(sessionStorage, "key", key);
