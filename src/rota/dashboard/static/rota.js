// Rota's dashboard: keeps a page alive. Every page reads and acts without it; this makes it fresh, quick and quiet.
"use strict";

const body = document.body;
const base = body.dataset.base;
const find = (selector, from = document) => from.querySelector(selector);
const all = (selector, from = document) => [...from.querySelectorAll(selector)];

// --- times -----------------------------------------------------------------------------------------------------------

const skew = Number(body.dataset.now) - Date.now(); // the server's clock is the one that counts
const UNITS = [[86400000, "d"], [3600000, "h"], [60000, "min"], [1000, "s"]];

function relative(at) {
  const now = Date.now() + skew;
  const distance = Math.abs(at - now);
  if (distance < 1000) return "now";
  const [size, unit] = UNITS.find(([each]) => distance >= each);
  const words = `${Math.floor(distance / size)} ${unit}`;
  return at > now ? `in ${words}` : `${words} ago`;
}

function freshenTimes() {
  for (const time of all("time[data-at]")) {
    const words = relative(Number(time.dataset.at));
    if (time.textContent !== words) time.textContent = words;
  }
}

// --- laying a new rendering over the old one -------------------------------------------------------------------------
// Elements that are still there stay the same elements, so focus, ticks, open menus and scroll are kept.

const KEPT = new Set(["class", "style"]); // what this script sets by itself

function morph(have, want) {
  for (const { name } of [...have.attributes]) {
    if (!want.hasAttribute(name) && !KEPT.has(name) && !(name === "open" && have.tagName === "DETAILS")) have.removeAttribute(name);
  }
  for (const { name, value } of want.attributes) {
    if (name === "open" && have.tagName === "DETAILS") continue;
    if (have.getAttribute(name) !== value) have.setAttribute(name, value);
  }
  morphChildren(have, want);
}

const alike = (one, other) => one.nodeType === other.nodeType && one.nodeName === other.nodeName
  && (one.dataset?.key ?? "") === (other.dataset?.key ?? "");

function morphChildren(have, want) {
  const keyed = new Map([...have.children].filter((child) => child.dataset.key).map((child) => [child.dataset.key, child]));
  let place = have.firstChild;
  for (const next of [...want.childNodes]) {
    const known = next.dataset?.key && keyed.get(next.dataset.key);
    if (known && known !== place) have.insertBefore(known, place);
    const current = known || place;
    if (current && alike(current, next)) {
      place = current.nextSibling;
      if (current.nodeType === Node.ELEMENT_NODE) morph(current, next);
      else if (current.data !== next.data) current.data = next.data;
    } else {
      have.insertBefore(next, place);
    }
  }
  while (place) {
    const gone = place;
    place = place.nextSibling;
    gone.remove();
  }
}

// --- live ------------------------------------------------------------------------------------------------------------

const QUIET_MS = 250; // at most four updates a second
const POLL_MS = 5000;
let stream = null;
let fetching = false;
let wanted = new Set(); // the names of regions
let fetchedAt = 0;
let timer = null;

function say(state, words) {
  const live = find("#live");
  if (!live) return;
  live.dataset.state = state;
  find("span", live).textContent = words;
}

function trouble(words) {
  const banner = find("#trouble");
  banner.hidden = !words;
  banner.textContent = words || "";
}

function refresh(regions = all("[data-live]")) {
  regions.forEach((region) => wanted.add(region.dataset.live));
  if (!wanted.size) return;
  if (fetching || timer || document.hidden) return;
  timer = setTimeout(fetchRegions, Math.max(0, fetchedAt + QUIET_MS - Date.now()));
}

async function fetchRegions() {
  timer = null;
  const regions = all("[data-live]").filter((region) => wanted.has(region.dataset.live));
  if (!regions.length || document.hidden) return;
  fetching = true;
  wanted = new Set();
  try {
    const answer = await fetch(location.href, {
      headers: { "X-Rota-Fragment": regions.map((region) => region.dataset.live).join(",") },
      cache: "no-store",
    });
    if (answer.status === 401) return void location.assign(`${base}/login?next=${encodeURIComponent(location.pathname + location.search)}`);
    if (!answer.ok) throw new Error(answer.status === 503 ? "The store is unavailable" : `The service answered ${answer.status}`);
    const { regions: fresh, badges } = await answer.json();
    showBadges(badges);
    for (const region of regions) {
      if (!(region.dataset.live in fresh)) continue;
      const template = document.createElement("template");
      template.innerHTML = fresh[region.dataset.live];
      morphChildren(region, template.content);
    }
    freshenTimes();
    countChosen();
    trouble("");
  } catch (error) {
    const why = error instanceof TypeError ? "The service cannot be reached" : error.message;
    trouble(`${why}. Showing data from ${new Date(fetchedAt || Date.now()).toLocaleTimeString()}; this page reconnects automatically.`);
  } finally {
    fetching = false;
    fetchedAt = Date.now();
    if (wanted.size) refresh([]);
  }
}

// How much waits for somebody, beside the entries of the menu.
function showBadges(badges) {
  for (const badge of all("[data-badge]")) {
    const number = badges?.[badge.dataset.badge] ?? 0;
    badge.hidden = !number;
    find("b", badge).textContent = number < 1000 ? number : "999+";
  }
}

function concerns(types) {
  const here = body.dataset.concerns;
  return here === "*" || types.includes(here);
}

function listen() {
  if (!body.dataset.liveFrom || stream || document.hidden) return;
  stream = new EventSource(body.dataset.liveFrom);
  const onNews = (event) => {
    const news = JSON.parse(event.data);
    if (news.is_store_away) trouble("The store is unavailable. No data is lost; this page reconnects automatically.");
    else if (!find("[data-live]")) trouble(""); // else whoever looks again says so
    showBadges(news.badges);
    if (concerns(news.types || [])) refresh();
  };
  stream.addEventListener("open", () => { say("live", "live"); refresh(); });
  stream.addEventListener("changed", onNews);
  stream.addEventListener("snapshot", onNews);
  stream.addEventListener("error", () => say(stream?.readyState === EventSource.CLOSED ? "polling" : "away", "reconnecting"));
}

function fallSilent() {
  stream?.close();
  stream = null;
  say("", "paused");
}

setInterval(() => {
  if (document.hidden || !body.dataset.liveFrom) return;
  if (stream?.readyState === EventSource.CLOSED) {
    stream = null;
    listen();
  }
  if (stream?.readyState !== EventSource.OPEN) say("polling", "polling");
  if (stream?.readyState !== EventSource.OPEN || !find("#trouble").hidden) refresh();
}, POLL_MS);
// Some things change without an event, like what an agent says: every so many seconds, that region is looked at again.
let seconds = 0;
setInterval(() => {
  seconds += 1;
  const due = all("[data-poll]").filter((part) => seconds % Number(part.dataset.poll) === 0);
  if (due.length && !document.hidden) refresh(due.map((part) => part.closest("[data-live]")));
}, 1000);
document.addEventListener("visibilitychange", () => (document.hidden ? fallSilent() : listen()));
addEventListener("pagehide", fallSilent);
addEventListener("pageshow", (event) => { if (event.persisted) listen(); });

// --- asking before acting --------------------------------------------------------------------------------------------

function confirmed(words, button) {
  const dialog = find("#confirm");
  const isDangerous = Boolean(button?.classList.contains("danger"));
  dialog.classList.toggle("danger-ahead", isDangerous);
  find("#confirm-yes").className = isDangerous ? "final" : "primary";
  // "Cancel" alone would read as the way out of the dialog.
  find("#confirm-yes").textContent = button ? `Yes, ${button.textContent.trim().toLowerCase()}` : "Confirm";
  find("#confirm-words").textContent = words;
  find("#confirm-note").textContent = button?.title || "";
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
}

// What is sent is what the form held when the question was asked: the page goes on living behind it, and its forms with it.
function send(form, agreed) {
  const copy = Object.assign(document.createElement("form"), { method: "post", hidden: true });
  copy.setAttribute("action", form.getAttribute("action"));
  for (const [name, value] of agreed) copy.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
  body.append(copy);
  copy.submit();
}

const chosen = () => all('input[name="task"][form="bulk"]:checked');

async function askHowMany(form, button) {
  const data = new FormData(form);
  const everything = data.get("scope") === "all";
  if (!everything && !chosen().length) return toast("Select some rows first, or “all matching”.");
  const verb = button.textContent.trim();
  data.set("event", button.value);
  let count = chosen().length;
  let isAll = true;
  if (everything && !data.get("reason")) {
    const names = { type: "task_type", status: "status", without: "without", user: "user", owner: "owner", search: "search", failure: "failure" };
    const query = Object.fromEntries(Object.entries(names).filter(([name]) => data.get(name)).map(([name, field]) => [field, data.get(name)]));
    if (data.get("schedules")) query.schedules = true;
    const answer = await fetch(form.dataset.bulk, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ event: button.value.replace("_", "-"), query, dry_run: true }),
    });
    const said = await answer.json();
    if (!answer.ok) return toast(said.detail || "The tasks could not be counted.");
    count = said.matched;
    isAll = said.matched_is_all;
  } else if (everything) {
    return send(form, data); // the next page counts and asks
  }
  const words = `${verb} ${isAll ? "" : "more than "}${count.toLocaleString("en")} ${count === 1 ? "task" : "tasks"}?`;
  offer(); // the command of the button is for what is ticked now
  if (!(await confirmed(words, button))) return;
  data.set("expected", String(count));
  send(form, data);
}

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (form.dataset.bulk) {
    event.preventDefault();
    await askHowMany(form, event.submitter);
  } else if (form.dataset.confirm) {
    event.preventDefault();
    const agreed = new FormData(form);
    if (await confirmed(form.dataset.confirm, event.submitter)) send(form, agreed);
  }
});

// --- choosing rows, copying, small things ----------------------------------------------------------------------------

function countChosen() {
  const words = find("[data-chosen]");
  if (words) words.textContent = chosen().length ? `${chosen().length} selected` : "";
  offer();
}

// Over a list only what can apply to some of the ticked rows is offered, each with the command that does exactly that.
function offer() {
  const ticked = chosen();
  const everything = find('#bulk input[name="scope"]')?.checked;
  const names = ticked.length ? ticked.map((tick) => tick.dataset.typed).join(" ") : "TYPE/KEY ...";
  all("#bulk button[name=event]").forEach((button) => {
    const applies = ticked.some((tick) => tick.dataset.can.split(" ").includes(button.value));
    button.hidden = !everything && ticked.length > 0 && !applies;
    button.title = everything ? button.dataset.all : `${button.dataset.named} ${names}`;
  });
}

document.addEventListener("change", (event) => {
  const field = event.target;
  if (field.matches("[data-tick-all]")) all('input[name="task"][form="bulk"]').forEach((tick) => { tick.checked = field.checked; });
  if (field.form?.matches("[data-auto]")) field.form.requestSubmit();
  countChosen();
});

let toastTimer = null;
function toast(words) {
  const place = find("#toast");
  place.textContent = words;
  place.classList.add("shown");
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => place.classList.remove("shown"), 2500);
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // no clipboard without https: the old way
    const area = Object.assign(document.createElement("textarea"), { value: text });
    (find("dialog[open]") || body).append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  toast("Copied");
}

document.addEventListener("click", (event) => {
  const source = event.target.closest("[data-copy]");
  if (source) copy(source.dataset.copy);
  all("details.menu[open]").forEach((menu) => { if (!menu.contains(event.target)) menu.open = false; });
});

// A menu opens beside its button; where that would be beyond an edge it is moved.
document.addEventListener("toggle", (event) => {
  const sheet = event.target.open && event.target.matches(".menu") && find(".sheet", event.target);
  if (!sheet) return;
  sheet.style.translate = "none";
  const room = find("#main").getBoundingClientRect();
  const box = sheet.getBoundingClientRect();
  const over = Math.max(0, box.right - room.right + 8);
  sheet.style.translate = `${Math.max(room.left + 8 - box.left, -over)}px 0`;
}, true);

// --- the preview of a schedule ---------------------------------------------------------------------------------------

function line(tag, text, className) {
  return Object.assign(document.createElement(tag), { textContent: text, className: className || "" });
}

async function preview(form) {
  const out = find("[data-preview-out]", form);
  const data = new FormData(form);
  const value = (data.get("value") || "").trim();
  if (!value) return;
  const trigger = { [data.get("kind")]: value, n: 6 };
  if (data.get("timezone")) trigger.timezone = data.get("timezone").trim();
  if (data.get("jitter")) trigger.jitter = data.get("jitter").trim();
  const answer = await fetch(form.dataset.preview, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(trigger),
  });
  const said = await answer.json();
  if (form.dataset.asked !== value + data.get("kind") + data.get("timezone")) return; // an older answer
  if (!answer.ok) return out.replaceChildren(line("p", said.detail, "note bad"));
  const fires = document.createElement("ol");
  fires.append(...said.fires.map((fire) => line("li", fire.replace("T", " "))));
  out.replaceChildren(line("p", said.words, "say"), fires, ...said.notes.map((note) => line("p", note, "note warn")));
}

for (const form of all("form[data-preview]")) {
  let waiting = null;
  const soon = () => {
    const data = new FormData(form);
    form.dataset.asked = (data.get("value") || "").trim() + data.get("kind") + data.get("timezone");
    clearTimeout(waiting);
    waiting = setTimeout(() => preview(form).catch((error) => toast(`No preview: ${error.message}`)), 200);
  };
  form.addEventListener("input", soon);
  soon();
}

// --- keys ------------------------------------------------------------------------------------------------------------

// Rows that have every word that is typed; without a script the button asks for them.
document.addEventListener("input", (event) => {
  const rows = event.target.dataset?.find;
  if (!rows) return;
  const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
  all(rows).forEach((row) => { row.hidden = !words.every((word) => row.dataset.words.includes(word)); });
  new Set(all(rows).map((row) => row.closest("section"))).forEach((part) => { part.hidden = !part.querySelector("[data-words]:not([hidden])"); });
});

let pressedG = false;
const isWriting = (element) => element.matches("input:not([type=checkbox],[type=radio]), textarea, select") || element.isContentEditable;

function moveRow(step) {
  const rows = all("tr[data-row]");
  if (!rows.length) return;
  const at = rows.findIndex((row) => row.classList.contains("at"));
  const next = rows[Math.min(rows.length - 1, Math.max(0, at + step))];
  rows.forEach((row) => row.classList.toggle("at", row === next));
  next.scrollIntoView({ block: "nearest" });
  find("[data-open]", next)?.focus({ preventScroll: true }); // so that a screen reader says it, and Tab goes on from it
}

const KEYS = {
  "/": () => find("[data-search]")?.focus(),
  "?": () => location.assign(`${base}/help`),
  j: () => moveRow(1),
  k: () => moveRow(-1),
  x: () => find("tr.at input[name=task]")?.click(),
  Enter: () => find("tr.at [data-open]")?.click(),
};

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    all("details.menu[open]").forEach((menu) => { menu.open = false; });
    if (isWriting(event.target)) event.target.blur();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || isWriting(event.target) || find("dialog[open]")) return;
  if (event.key === "Enter" && event.target.closest("a, button, summary")) return;
  if (pressedG) {
    pressedG = false;
    const link = all("[data-letter]").find((each) => each.dataset.letter === event.key);
    if (link) link.click();
    return;
  }
  if (event.key === "g") {
    pressedG = true;
    setTimeout(() => { pressedG = false; }, 1200);
  } else if (KEYS[event.key]) {
    event.preventDefault();
    KEYS[event.key]();
  }
});

// --- a form that came back ----------------------------------------------------------------------------------------
// It was answered where it was sent to. What is shown is the page that it was on: so says the address again, and loading
// the page anew sends nothing a second time.

if (body.dataset.here) {
  history.replaceState(null, "", body.dataset.here);
  find("[aria-invalid=true]")?.focus();
}

// --- the start -------------------------------------------------------------------------------------------------------

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone && zone !== body.dataset.zone) {
  document.cookie = `rota_browser_zone=${zone}; path=${base}/; max-age=31536000; samesite=strict`;
  all("select[name=rota_zone] option[value=browser]").forEach((option) => { option.textContent = zone; });
  refresh();
}
const menu = find(".side nav");
const current = menu && find("[aria-current]", menu);
if (current && menu.scrollWidth > menu.clientWidth) { // on a phone the menu is one long line
  menu.scrollLeft = current.offsetLeft - menu.offsetLeft - (menu.clientWidth - current.offsetWidth) / 2;
}
setInterval(freshenTimes, 1000);
freshenTimes();
countChosen();
listen();
