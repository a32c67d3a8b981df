// The pages work without this script. It refreshes open counts, shows times in the browser's time zone, copies
// keys, finds with "/", and keeps a form from being sent twice.
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

/** Replaces the live part of the page every two seconds, until the server marks it as final. */
async function refresh() {
  const live = document.querySelector("[data-live]");
  if (!live) return;
  if (!document.hidden) {
    try {
      const response = await fetch(location.href, { cache: "no-store" });
      if (response.redirected || response.status === 401) {
        location.reload();
        return;
      }
      const page = response.ok ? parse(await response.text()) : null;
      const fresh = page && page.getElementById(live.id);
      if (fresh && !live.contains(document.activeElement)) {
        const node = document.importNode(fresh, true);
        localTimes(node);
        live.replaceWith(node);
      }
    } catch {
      // The next refresh tries again.
    }
  }
  setTimeout(refresh, REFRESH_MS);
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
