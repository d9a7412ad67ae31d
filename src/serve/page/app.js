// The playground: connects the prompt, the branches, the chart and the saved states.

import { models, newKey, onKeyNeeded, usesKey } from "./api.js";
import { Branch } from "./branch.js";
import { drawChart } from "./chart.js";
import { bytes, parameters, plural } from "./format.js";
import { closePopover, startPopover } from "./popover.js";
import { currentPrompt, currentSource, replyTo, setSource, startPrompt, useTokenNumbers } from "./prompt.js";
import { clearWrong, currentSettings, markWrong, startSettings } from "./settings.js";
import { markMissing, saveBranch, startStates } from "./states.js";
import { nameTokensByNumber } from "./tokens.js";
import { BranchView } from "./view.js";

const byId = (id) => document.getElementById(id);

let model = null; // the member "bochner" of the model
let views = [];
let branchCount = 0;

function announce(text) {
  byId("status").textContent = text;
}

function showProblem(message, retry) {
  byId("problem-text").textContent = message;
  byId("problem").hidden = false;
  byId("problem-retry").hidden = !retry;
  byId("problem-retry").onclick = retry ?? null;
}

function hideProblem() {
  byId("problem").hidden = true;
}

/** Shows an Error, or announces a text. */
function report(what) {
  if (what instanceof Error) showProblem(what.message);
  else announce(what);
}

// ---- branches

function nextLetter() {
  const n = branchCount++;
  return String.fromCharCode(65 + (n % 26)) + (n < 26 ? "" : Math.floor(n / 26));
}

const viewOf = (branch) => views.find((view) => view.branch === branch);

function showChart() {
  if (!model) return;
  showChart.frame ??= requestAnimationFrame(() => {
    showChart.frame = undefined;
    drawChart(model, views.map(({ branch }) => ({ letter: branch.letter, tokens: branch.context })));
  });
}

function showButtons() {
  byId("stop").disabled = !views.some(({ branch }) => branch.running);
  byId("run-beside").hidden = views.length === 0;
  byId("empty").hidden = views.length > 0;
}

function changed(branch) {
  viewOf(branch)?.update();
  showChart();
  showButtons();
}

const endings = {
  stop: "finished at the end of the text",
  length: "finished at the token limit",
  stopped: "stopped",
  failed: "failed",
};

async function generate(branch) {
  clearWrong();
  announce(`Branch ${branch.letter}: generating`);
  const before = branch.tokens.length;
  await branch.generate(currentSettings(), changed);
  const { status, error, letter, tokens, source } = branch;
  announce(`Branch ${letter}: ${endings[status]}, ${plural(tokens.length - before, "token")}`);
  if (error?.param) markWrong(error.param, error.message);
  if (error?.status === 404 && source) markMissing(source.id);
}

function addBranch(branch, after) {
  const view = new BranchView(branch, actions);
  const at = after ? views.indexOf(after) + 1 : views.length;
  views.splice(at, 0, view);
  if (after) after.element.after(view.element);
  else byId("branches").append(view.element);
  showButtons();
  showChart();
  generate(branch);
  return view;
}

function removeView(view) {
  closePopover();
  view.branch.stop();
  view.element.remove();
  views = views.filter((other) => other !== view);
  showButtons();
  showChart();
}

const actions = {
  close(branch) {
    const at = views.indexOf(viewOf(branch));
    removeView(viewOf(branch));
    const next = views[Math.min(at, views.length - 1)];
    (next?.element.querySelector(".close") ?? byId("run")).focus();
  },
  go: generate,
  halt: (branch) => branch.stop(),
  reply(branch) {
    setSource(branch.source);
    replyTo([...branch.prompt.messages, { role: "assistant", content: branch.generatedText.trim() }]);
  },
  async save(branch) {
    try {
      await saveBranch(branch);
    } catch (error) {
      report(error);
    }
  },
  async copy(branch) {
    try {
      await navigator.clipboard.writeText(branch.generatedText);
      announce(`Copied the text of branch ${branch.letter}`);
    } catch {
      showProblem("The browser does not allow this page to copy. Select the text instead.");
    }
  },
};

function fork(view, index, alternative) {
  const { branch } = view;
  const replacement = alternative && { ...alternative, top: branch.tokens[index].top };
  const forked = branch.fork(nextLetter(), replacement ? index : index + 1, replacement);
  const { element } = addBranch(forked, view);
  element.scrollIntoView({ block: "nearest" });
  element.querySelector("h3").focus({ preventScroll: true });
}

function run(beside) {
  hideProblem();
  let prompt;
  try {
    prompt = currentPrompt();
  } catch (error) {
    return showProblem(error.message);
  }
  if (!beside) {
    [...views].forEach(removeView);
    branchCount = 0;
  }
  const view = addBranch(new Branch({ letter: nextLetter(), prompt, source: currentSource(), model }));
  if (window.innerWidth < 900) view.element.scrollIntoView({ block: "start" });
}

function stopAll() {
  for (const { branch } of views) branch.stop();
}

// ---- API key

function requestKey(message) {
  const dialog = byId("key-dialog");
  byId("key-message").textContent = message;
  byId("key").value = "";
  dialog.returnValue = "cancel";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "use" ? byId("key").value : null), { once: true });
  });
}

// ---- start

function describeModel({ id, bochner }) {
  const parts = [
    `${bochner.attention} attention`,
    `${parameters(bochner.parameters)} parameters`,
    bochner.max_tokens === null ? "any length" : `up to ${plural(bochner.max_tokens, "token")}`,
  ];
  const name = document.createElement("strong");
  name.textContent = id;
  byId("model").replaceChildren(name, ` ${parts.join(" · ")}`);
  document.title = `${id} – Bochner playground`;
}

async function loadModel() {
  hideProblem();
  try {
    const [entry] = (await models()).data;
    model = entry.bochner;
    describeModel(entry);
    startStates(entry.id, setSource, report);
    if (!model.tokenizer) {
      useTokenNumbers();
      nameTokensByNumber();
    }
    showChart();
    byId("run").disabled = false;
  } catch (error) {
    byId("model").textContent = "No model";
    showProblem(error.message, loadModel);
  }
  byId("change-key").hidden = !usesKey();
}

function onKey(event) {
  if (byId("key-dialog").open) return;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    if (model) run(false);
  } else if (event.key === "Escape" && !closePopover()) {
    stopAll();
  }
}

function findToken(element) {
  const card = element.closest(".branch");
  return { view: views.find((view) => view.element === card), index: Number(element.dataset.index) };
}

function start() {
  startSettings();
  startPrompt();
  startPopover(byId("branches"), findToken, fork);
  onKeyNeeded(requestKey);
  byId("run").disabled = true;
  byId("prompt-form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (model) run(false);
  });
  byId("run-beside").addEventListener("click", () => run(true));
  byId("stop").addEventListener("click", stopAll);
  byId("problem-close").addEventListener("click", hideProblem);
  byId("change-key").addEventListener("click", () => newKey("Enter another key for this server."));
  document.addEventListener("keydown", onKey);
  new ResizeObserver(showChart).observe(byId("chart"));
  loadModel();
}

start();
