// The pages work without this script. It refreshes open counts, previews while typing, shows times in the browser's
// time zone, copies keys, finds with "/", and keeps a form from being sent twice.
"use strict";

const REFRESH_MS = 2000;

/** Shows times in the time zone of the browser. */
function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (!Number.isNaN(at.getTime())) {
      time.title = time.textContent;
      time.textContent = at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
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
      const response = await fetch(location.href, { cache: "no-store" });
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

localTimes(document);
document.querySelector("[data-focus]")?.focus();
if (parse("<p></p>")) setTimeout(refresh, REFRESH_MS);

/* Send: the preview while typing. */

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
  const follows = !json.dataset.edited && json.defaultValue === "";
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
