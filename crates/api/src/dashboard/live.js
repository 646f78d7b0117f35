// The pages' script: highlights items and their exchanges, loads messages in place, and updates parts of pages on events.
// Pages work without it.
"use strict";

// Styles show what needs the script only with this class.
document.documentElement.classList.add("scripted");

// --- Highlights what belongs together: items of the summary, exchanges, and segments of the map.

// The ranges of exchanges that an element is about.
function ranges(element) {
  const { x, n, to } = element.dataset;
  if (n) return [[Number(n), Number(to ?? n)]];
  return x.split(" ").filter(Boolean).map((span) => span.split("-").map(Number));
}

function light(origin) {
  document.querySelectorAll(".lit").forEach((lit) => lit.classList.remove("lit"));
  const link = origin?.closest("svg.map a")?.querySelector("[data-n]");
  const source = link ?? origin?.closest("[data-x], [data-n]");
  if (!source) return;
  const own = ranges(source);
  const meets = ([first, last]) => own.some(([from, to]) => from <= last && first <= to);
  for (const one of document.querySelectorAll("[data-x], [data-n]")) {
    one.classList.toggle("lit", ranges(one).some(meets));
  }
}
for (const kind of ["mouseover", "focusin"]) {
  document.addEventListener(kind, (event) => light(event.target instanceof Element ? event.target : null));
}

// --- Shows an opened exchange's messages in place.

// Exchanges whose messages were requested, and those messages. Updates must not remove them.
const loaded = new WeakSet();

document.addEventListener("toggle", async (event) => {
  const details = event.target;
  if (!(details instanceof HTMLDetailsElement) || !details.open || !details.dataset.load || loaded.has(details)) return;
  loaded.add(details);
  const page = await asked(details.dataset.load);
  const messages = page?.getElementById("messages");
  if (!messages) { loaded.delete(details); return; }
  messages.removeAttribute("id");
  messages.querySelectorAll("[id]").forEach((element) => element.removeAttribute("id"));
  loaded.add(messages);
  details.querySelector(".inside").append(messages);
}, true);

async function asked(address, known = []) {
  try {
    const headers = { accept: "text/html", ...(known.length ? { "recapd-known": known.join(" ") } : {}) };
    const answer = await fetch(address, { headers, cache: "no-store" });
    return answer.ok ? new DOMParser().parseFromString(await answer.text(), "text/html") : null;
  } catch {
    return null;
  }
}

// --- Updates live parts. Changes elements in place, so that they keep their scroll position, focus and open state.

function attributes(old, fresh) {
  const isLit = old.classList.contains("lit");
  for (const { name, value } of fresh.attributes) {
    if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  if (isLit) old.classList.add("lit");
}

// Returns an element's identity on any page: its id, or the exchange that it opens.
const key = (node) => node.id || node.dataset?.load || "";

function morph(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  attributes(old, fresh);
  const named = new Map([...old.children].filter(key).map((child) => [key(child), child]));
  let place = old.firstChild;
  for (const want of fresh.childNodes) {
    const fits = place && !key(place) && !key(want) && !loaded.has(place) && place.nodeName === want.nodeName;
    const have = key(want) ? named.get(key(want)) : fits ? place : null;
    if (!have) old.insertBefore(document.importNode(want, true), place);
    else {
      if (have === place) place = place.nextSibling;
      else old.insertBefore(have, place);
      morph(have, want);
    }
  }
  while (place) {
    const next = place.nextSibling;
    if (!loaded.has(place)) place.remove();
    place = next;
  }
}

// The pause between two updates, in milliseconds. After some quick updates the pause doubles while events keep coming. So a short
// burst of changes shows soon, and a busy agent costs little.
const PAUSE_MS = 250;
const PAUSE_MS_MAX = 2_000;
const QUICK_UPDATES = 5;
let asking = false;
let again = false;

async function follow() {
  if (asking) { again = true; return; }
  asking = true;
  for (let pause = PAUSE_MS, updates = 1, more = true; more; updates++) {
    if (updates > QUICK_UPDATES) pause = Math.min(2 * pause, PAUSE_MS_MAX);
    again = false;
    const known = [...document.querySelectorAll("[data-live]")].map((part) => part.dataset.live);
    const page = await asked(location.href, known);
    if (!page) { mark(false); break; }
    for (const fresh of page.querySelectorAll("[data-live]:not([data-same])")) {
      const old = document.getElementById(fresh.id);
      if (old) morph(old, fresh);
    }
    const [time, newer] = [document.querySelector(".foot time"), page.querySelector(".foot time")];
    if (time && newer) time.replaceWith(newer);
    await new Promise((done) => setTimeout(done, pause));
    more = again;
  }
  asking = false;
}

// Without the daemon the page says that it shows an earlier state.
function mark(isLive) {
  const [pulse, away] = [document.getElementById("pulse"), document.getElementById("away")];
  if (!pulse || !away) return;
  document.body.classList.toggle("is-away", !isLive);
  pulse.className = isLive ? "pulse on" : "pulse off";
  const word = isLive ? "live" : "not connected";
  if (pulse.textContent !== word) pulse.textContent = word;
  if (away.hidden === isLive) return;
  away.hidden = isLive;
  const since = document.querySelector(".foot time")?.textContent ?? "";
  away.textContent = isLive ? "" : `The daemon doesn't answer. This page shows what it knew at ${since}.`;
}

// --- Receives events from the server. A hidden page doesn't listen.

const KINDS = ["changed", "agent.deleted", "lagged"];
// The daemon sends an event at least every two seconds.
const SILENCE_MS_MAX = 3_800;
const address = document.body.dataset.events;
let source = null;
let heard = 0;

function listen() {
  if (!address || source || document.hidden) return;
  heard = Date.now();
  source = new EventSource(address);
  source.onopen = () => { heard = Date.now(); mark(true); follow(); };
  source.onerror = () => mark(false);
  source.addEventListener("beat", () => { heard = Date.now(); mark(true); });
  for (const kind of KINDS) source.addEventListener(kind, () => { heard = Date.now(); follow(); });
}

setInterval(() => { if (source && Date.now() - heard > SILENCE_MS_MAX) mark(false); }, 500);

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) { listen(); return; }
  source?.close();
  source = null;
});

const moves = document.querySelector("[data-live]") !== null;

document.querySelector("[data-refresh]")?.addEventListener("click", (event) => {
  if (!moves) return;
  event.preventDefault();
  follow();
});

// Ages grow even if nothing happens.
const AGES_MS = 60_000;
if (moves) setInterval(() => { if (!document.hidden) follow(); }, AGES_MS);

// --- Keeps at most one confirmation open. Escape closes it.

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const open = event.target.closest?.("details.act[open]") ?? document.querySelector("details.act[open]");
  if (open) { open.open = false; open.querySelector("summary").focus(); }
});

// --- Handles keys: they go to a page, to the search field, or to an action. Ignored while the user types, or if switched off.

const dialog = document.getElementById("keys");
const choice = document.getElementById("keys-on");
const KEYS_OFF = "recapd.keys-off";

function remembered(value) {
  // The browser may refuse to store anything.
  try {
    if (value !== undefined) localStorage.setItem(KEYS_OFF, value);
    return localStorage.getItem(KEYS_OFF) === "true";
  } catch {
    return false;
  }
}

if (choice) {
  choice.checked = !remembered();
  choice.addEventListener("change", () => remembered(String(!choice.checked)));
}
document.querySelector("[data-keys]")?.addEventListener("click", () => dialog.showModal());

function press(key) {
  const field = document.querySelector("main input[type=search]");
  if (key === "?") dialog?.showModal();
  else if (key === "/" && field) { field.focus(); field.select(); }
  else document.querySelector(`[data-key="${CSS.escape(key)}"]`)?.click();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.key.length !== 1 || !choice?.checked || dialog.open) return;
  if (event.target.closest?.("input, textarea, select, [contenteditable]")) return;
  if (event.key === "/") event.preventDefault();
  press(event.key);
});

// --- Copies text. Over plain HTTP browsers have no clipboard API, so the text is selected and then copied.

function copySelected(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "quiet-hear";
  area.setAttribute("readonly", "");
  document.body.append(area);
  area.select();
  const isDone = document.execCommand("copy");
  area.remove();
  return isDone;
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text);
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target instanceof Element ? event.target.closest("[data-copy]") : null;
  if (!button) return;
  const isDone = await copied(button.dataset.copy);
  button.focus();
  button.dataset.done = isDone ? "Copied" : "Not copied";
  setTimeout(() => delete button.dataset.done, 2_000);
});

listen();
