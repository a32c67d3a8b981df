// The pages work without this script. It refreshes open counts, previews while typing, shows times in the browser's
// time zone, copies keys, finds with "/", and keeps a form from being sent twice.
"use strict";

const REFRESH_MS = 2000;

/** A time of day and its zone. */
const TIME = { hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" };
const DATE_AND_TIME = { year: "numeric", month: "short", day: "numeric", ...TIME };

/** Shows times in the time zone of the browser, with its name. */
function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (!Number.isNaN(at.getTime())) {
      time.title = time.textContent;
      time.textContent = at.toLocaleString(undefined, DATE_AND_TIME);
    }
  }
}

/** Copies the text of an element. Without a secure context, the text is selected instead. */
async function copy(button) {
  const source = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
  } catch {
    const range = document.createRange();
    range.selectNodeContents(source);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    button.textContent = "Press Ctrl+C";
  }
}

/**
 * Parses a page of this server. A browser without `parseHTML` keeps the page as it is. The empty sanitizer removes
 * scripts, but keeps ids, data attributes and forms, which the default one removes.
 */
function parse(text) {
  return typeof Document.parseHTML === "function" ? Document.parseHTML(text, { sanitizer: {} }) : null;
}

/** Replaces the live parts of the page every two seconds, until the server marks them as final. */
async function refresh() {
  const parts = document.querySelectorAll("[data-live]");
  if (parts.length === 0) return;
  if (!document.hidden) {
    try {
      const response = await fetch(location.href, { cache: "no-store", headers: { "x-notify-refresh": "1" } });
      if (response.redirected || response.status === 401) {
        location.reload();
        return;
      }
      const page = response.ok ? parse(await response.text()) : null;
      for (const live of parts) {
        const fresh = page && page.getElementById(live.id);
        // An unchanged part keeps its focus, its selection and its images.
        if (!fresh || live.contains(document.activeElement) || shown.get(live.id) === fresh.outerHTML) continue;
        shown.set(live.id, fresh.outerHTML);
        const node = document.importNode(fresh, true);
        keepOpen(live, node);
        localTimes(node);
        live.replaceWith(node);
      }
    } catch {
      // The next refresh tries again.
    }
  }
  setTimeout(refresh, REFRESH_MS);
}

/** The HTML of each live part that the page shows, by id. */
const shown = new Map();

/** Opens the details that are open in the part of the page that `fresh` replaces. */
function keepOpen(old, fresh) {
  for (const details of old.querySelectorAll("details[open][id]")) {
    fresh.querySelector(`#${CSS.escape(details.id)}`)?.setAttribute("open", "");
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button);
});

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, textarea, select");
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
    const find = document.getElementById("find");
    if (find) {
      event.preventDefault();
      find.focus();
    }
  }
});

document.addEventListener("submit", (event) => {
  if (event.target.dataset.sent) {
    event.preventDefault();
    return;
  }
  if (event.target.method === "post") event.target.dataset.sent = "1";
});
// A page from the history may be sent again.
addEventListener("pageshow", () => {
  for (const form of document.forms) delete form.dataset.sent;
});

// A page that shows a new secret is the answer to a form. When it is loaded again, the form is not sent again.
if (document.querySelector("[data-once]")) history.replaceState(null, "", location.href);
localTimes(document);
document.querySelector("[data-focus]")?.focus();
if (parse("<p></p>")) setTimeout(refresh, REFRESH_MS);

/** Reads chosen campaign files into the text of the form. */
async function readFiles(input, text) {
  const files = await Promise.all(Array.from(input.files, async (file) => {
    const content = await file.text();
    return content.startsWith("# file: ") ? content : `# file: ${file.name}\n${content}`;
  }));
  if (files.length) text.value = files.join("\n");
}

for (const line of document.querySelectorAll("[data-files]")) {
  const input = line.querySelector("input");
  line.hidden = false;
  input.addEventListener("change", () => readFiles(input, document.getElementById(line.dataset.files)));
}

const EVENTS_SHOWN_MAX = 200;
const RECONNECT_MS = 3000;

/** The live events: one stream a page, closed while the page is hidden, opened again from the last event. */
function showEvents(list) {
  const state = document.querySelector("[data-events-state]");
  const pause = document.querySelector("[data-events-pause]");
  const none = document.querySelector("[data-events-none]");
  const row = document.getElementById("event");
  let cursor = list.dataset.cursor;
  let isPaused = false;
  let source = null;
  let timer = 0;

  function setState(text, tone) {
    state.textContent = text;
    state.className = `badge ${tone}`;
  }

  function add(event) {
    const body = JSON.parse(event.data);
    const item = document.importNode(row.content, true);
    const time = item.querySelector("time");
    const at = body.timestamp ? new Date(body.timestamp) : new Date();
    time.dateTime = at.toISOString();
    time.textContent = at.toLocaleTimeString(undefined, TIME);
    time.title = at.toLocaleString(undefined, DATE_AND_TIME);
    item.querySelector(".badge").textContent = body.type;
    const links = item.querySelector(".event-links");
    const data = body.data ?? {};
    for (const [field, folder] of [["notification_id", "notifications"], ["poll_id", "polls"], ["device_id", "devices"], ["user_id", "users"]]) {
      if (!data[field]) continue;
      const link = document.createElement("a");
      link.href = `${list.dataset.base}/${folder}/${encodeURIComponent(data[field])}`;
      link.textContent = data[field];
      if (links.childNodes.length) links.append(" · ");
      links.append(link);
    }
    const counts = Object.entries(data.counts ?? {}).filter(([, count]) => count > 0);
    const words = counts.map(([name, count]) => `${name} ${count}`).concat(data.reason ?? []);
    if (words.length) links.append(` ${words.join(", ")}`);
    item.querySelector("pre code").textContent = JSON.stringify(body, null, 2);
    item.querySelector(".event-cursor").textContent = event.lastEventId;
    list.prepend(item);
    while (list.childElementCount > EVENTS_SHOWN_MAX) list.lastElementChild.remove();
    none.hidden = true;
  }

  function close() {
    clearTimeout(timer);
    source?.close();
    source = null;
  }

  /** Tries again after the server refused the stream, unless it refused the cursor or the session has ended. */
  async function retry(url) {
    close();
    setState("not connected: trying again", "bad");
    timer = setTimeout(open, RECONNECT_MS);
    const probe = new AbortController();
    try {
      const headers = { "x-notify-refresh": "1" };
      const response = await fetch(url, { cache: "no-store", headers, signal: probe.signal });
      if (response.redirected) location.reload();
      if (response.status === 429) setState("too many streams are open: trying again", "bad");
      if (response.status === 400) {
        close();
        setState("this is not the cursor of an event", "bad");
      }
    } catch {
      // The server cannot be reached. The timer tries again.
    } finally {
      probe.abort();
    }
  }

  function open() {
    if (source || isPaused || document.hidden) return;
    const url = new URL(list.dataset.events, location.href);
    if (cursor) url.searchParams.set("cursor", cursor);
    source = new EventSource(url);
    source.onopen = () => setState("live", "good");
    source.onerror = () => {
      if (source?.readyState === EventSource.CLOSED) retry(url);
      else setState("connecting again", "busy");
    };
    const receive = (event) => {
      cursor = event.lastEventId || cursor;
      if (event.type === "reset") setState("live; some events are no longer stored", "busy");
      else if (event.type !== "position") add(event);
    };
    for (const type of list.dataset.types.split(" ")) source.addEventListener(type, receive);
    source.addEventListener("position", receive);
    source.addEventListener("reset", receive);
  }

  pause.hidden = false;
  none.hidden = false;
  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    pause.textContent = isPaused ? "Resume" : "Pause";
    close();
    if (isPaused) setState("paused", "");
    else open();
  });
  document.addEventListener("visibilitychange", () => {
    close();
    if (!document.hidden) open();
    else if (!isPaused) setState("paused while hidden", "");
  });
  open();
}

const eventList = document.querySelector("[data-events]");
if (eventList && "EventSource" in window) showEvents(eventList);
/** Reads a chosen file into its field. Without the script, its content is pasted. */
async function fill(input) {
  const [file] = input.files;
  if (file) document.getElementById(input.dataset.fill).value = await file.text();
}

for (const input of document.querySelectorAll("[data-fill]")) {
  input.closest("[hidden]").hidden = false;
  input.addEventListener("change", () => fill(input));
}
/* Send and Segments: the preview while typing. */

const TYPING_MS = 150;
let typing = 0;
let previewing = null;

/** Previews the form, and shows the parts of the answer that depend on the input. */
async function preview(form) {
  previewing?.abort();
  previewing = new AbortController();
  const fields = new URLSearchParams(new FormData(form));
  fields.set("do", "preview");
  fields.set("live", "1");
  // JSON that nobody edited follows the fields.
  const json = document.getElementById("json");
  const follows = json && !json.dataset.edited && json.defaultValue === "";
  if (follows) fields.set("json", "");
  try {
    const options = { method: "POST", body: fields, signal: previewing.signal };
    const response = await fetch(form.getAttribute("action"), options);
    // A redirect leads to the sign-in: the input stays here.
    const page = response.ok && !response.redirected ? parse(await response.text()) : null;
    if (!page) return;
    showPreview(page);
    if (follows && !json.dataset.edited) json.value = page.getElementById("json").value;
  } catch {
    // The next change tries again.
  }
}

function showPreview(page) {
  for (const fresh of page.querySelectorAll("[data-fresh]")) {
    const old = document.getElementById(fresh.id);
    if (!old || old.contains(document.activeElement) || shown.get(fresh.id) === fresh.innerHTML) continue;
    shown.set(fresh.id, fresh.innerHTML);
    const node = document.importNode(fresh, true);
    keepOpen(old, node);
    old.replaceChildren(...node.childNodes);
  }
}

document.addEventListener("input", (event) => {
  const form = event.target.form;
  if (!form || !("preview" in form.dataset) || event.target.name === "confirm") return;
  if (event.target.id === "json") event.target.dataset.edited = "1";
  clearTimeout(typing);
  typing = setTimeout(preview, TYPING_MS, form);
});
