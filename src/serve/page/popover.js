// The details of a token: its probability, the alternatives, and forking. They are shown for the token that the
// pointer rests on, that has the focus, or that was tapped.

import { screenReaderText, percent, visible } from "./format.js";

const byId = (id) => document.getElementById(id);
const popover = byId("popover");
const choices = byId("popover-choices");
const showDelay = 80;
const hideDelay = 250; // time to move the pointer from the token into the details

let find; // maps the element of a token to { view, index }
let fork; // (view, index, alternative or null)
let shown = null; // the element of the token
let pinned = false; // it stays when the pointer leaves
let timer;
let returning = false; // the focus goes back to a token whose details were closed
let pointer = { x: -1, y: -1 };

function later(delay, action) {
  clearTimeout(timer);
  timer = setTimeout(action, delay);
}

function choiceRow({ id, name, logprob }, chosen) {
  const row = document.createElement("li");
  const button = document.createElement(chosen ? "div" : "button");
  const label = document.createElement("span");
  const share = document.createElement("span");
  button.className = "choice";
  label.className = "choice-name";
  label.textContent = visible(name);
  share.className = "choice-share";
  share.textContent = percent(Math.exp(logprob));
  button.style.setProperty("--share", Math.exp(logprob));
  if (chosen) {
    button.classList.add("chosen");
    share.textContent += " ✓ chosen";
  } else {
    button.type = "button";
    button.setAttribute("aria-label", `Continue with ${screenReaderText(name)}, ${percent(Math.exp(logprob))}`);
    button.addEventListener("click", () => startFork({ id, name, logprob }));
  }
  button.append(label, share);
  row.append(button);
  return row;
}

function fill(token) {
  byId("popover-token").textContent = visible(token.name);
  byId("popover-probability").textContent = percent(Math.exp(token.logprob));
  byId("popover-id").textContent = `token ${token.id}`;
  const top = token.top.some(({ name }) => name === token.name) ? token.top : [...token.top, token];
  choices.replaceChildren(...top.map((choice) => choiceRow(choice, choice.name === token.name)));
}

// Wide screens: below the token, or above it if there is more space. Narrow screens: at the bottom (style.css).
function place() {
  if (!shown) return;
  const [first] = shown.getClientRects();
  if (!first) return hide();
  const margin = 8;
  const { offsetWidth: width, offsetHeight: height } = popover;
  const below = first.bottom + margin;
  const above = first.top - height - margin;
  const top = below + height <= window.innerHeight || above < 0 ? below : above;
  const left = Math.min(Math.max(first.left - 16, margin), document.documentElement.clientWidth - width - margin);
  popover.style.setProperty("--left", `${left}px`);
  popover.style.setProperty("--top", `${Math.max(margin, Math.min(top, window.innerHeight - height - margin))}px`);
}

function show(element, pin) {
  clearTimeout(timer);
  const { view, index } = find(element);
  if (shown !== element) {
    hide();
    shown = element;
    view.scrollLocked = true;
    element.classList.add("open");
    fill(view.branch.tokens[index]);
    popover.hidden = false;
  }
  pinned = pin;
  place();
}

function hide() {
  clearTimeout(timer);
  if (!shown) return;
  const element = shown;
  const hadFocus = popover.contains(document.activeElement);
  shown = null;
  pinned = false;
  find(element).view.scrollLocked = false;
  element.classList.remove("open");
  popover.hidden = true;
  if (!hadFocus) return;
  returning = true;
  moveFocus(element);
  returning = false;
}

/** Closes the details. Returns whether they were open. */
export function closePopover() {
  const open = shown !== null;
  hide();
  return open;
}

function startFork(alternative) {
  const { view, index } = find(shown);
  fork(view, index, alternative);
  hide(); // the new branch has the focus
}

function moveFocus(element) {
  const group = element.parentElement;
  group.querySelector(".token[tabindex='0']").tabIndex = -1;
  element.tabIndex = 0;
  element.focus();
}

function neighbor(element, key) {
  const { previousElementSibling: before, nextElementSibling: after, parentElement: group } = element;
  return { ArrowLeft: before, ArrowRight: after, Home: group.firstElementChild, End: group.lastElementChild }[key];
}

function onTokenKey(event, element) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    show(element, true);
    popover.querySelector(".choices button, #popover-fork").focus();
    return;
  }
  const next = neighbor(element, event.key);
  if (!next) return;
  event.preventDefault();
  moveFocus(next);
}

function onTap(element) {
  moveFocus(element);
  show(element, true);
}

// Text that moves under a pointer at rest, while tokens arrive or the page scrolls, is not pointed at.
function hasMoved({ clientX: x, clientY: y }) {
  const moved = x !== pointer.x || y !== pointer.y;
  pointer = { x, y };
  return moved;
}

const tokenOf = (event) => event.target.closest?.(".tokens .token");

function watchTokens(area) {
  area.addEventListener("pointerover", (event) => {
    const element = tokenOf(event);
    if (!element || event.pointerType !== "mouse" || pinned || !hasMoved(event)) return;
    later(showDelay, () => element.isConnected && show(element, false));
  });
  area.addEventListener("pointerout", (event) => {
    if (tokenOf(event) && event.pointerType === "mouse" && !pinned) later(hideDelay, hide);
  });
  area.addEventListener("focusin", (event) => {
    const element = tokenOf(event);
    if (element && element !== shown && !returning) show(element, true);
  });
  area.addEventListener("click", (event) => {
    const element = tokenOf(event);
    if (element && window.getSelection().isCollapsed) onTap(element);
  });
  area.addEventListener("keydown", (event) => {
    const element = tokenOf(event);
    if (element) onTokenKey(event, element);
  });
}

function watchPopover() {
  popover.addEventListener("pointerenter", () => clearTimeout(timer));
  popover.addEventListener("pointerleave", () => !pinned && later(hideDelay, hide));
  byId("popover-close").addEventListener("click", hide);
  byId("popover-fork").addEventListener("click", () => startFork(null));
}

function watchPage() {
  const outside = (target) => shown && target !== shown && !popover.contains(target) && !target.closest?.(".tokens .token");
  document.addEventListener("pointerdown", (event) => outside(event.target) && hide());
  document.addEventListener("focusin", (event) => outside(event.target) && hide());
  document.addEventListener("scroll", place, true);
  document.addEventListener("pointermove", hasMoved);
  window.addEventListener("resize", place);
}

/** area: the element with all branches. See the variables `find` and `fork`. */
export function startPopover(area, findToken, forkBranch) {
  find = findToken;
  fork = forkBranch;
  watchTokens(area);
  watchPopover();
  watchPage();
}
