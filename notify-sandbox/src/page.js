// Adds new messages to the page as they arrive. The rows in the window do not move.
"use strict";
const PERIOD_MS = 3000;
const ROWS_MAX = 200;

const numberOf = (row) => Number(row.dataset.number);
const rowsOf = (page) => page.querySelector("tbody");
const replace = (page, id) =>
  document.getElementById(id).replaceWith(document.adoptNode(page.getElementById(id)));

function show(page) {
  replace(page, "counts");
  const [shown, received] = [rowsOf(document), rowsOf(page)];
  if (!shown && !received) return;
  // The first message, or the messages were deleted.
  if (!shown || !received || numberOf(received.rows[0]) < numberOf(shown.rows[0])) {
    replace(page, "messages");
    return;
  }
  const newest = numberOf(shown.rows[0]);
  // The row at the upper edge of the window stays where it is.
  const anchor = [...shown.rows].find((row) => row.getBoundingClientRect().bottom > 0);
  const top = anchor?.getBoundingClientRect().top;
  shown.prepend(...[...received.rows].filter((row) => numberOf(row) > newest));
  while (shown.rows.length > ROWS_MAX) shown.deleteRow(-1);
  if (scrollY > 0 && anchor?.isConnected) scrollBy(0, anchor.getBoundingClientRect().top - top);
}

async function update() {
  const answer = await fetch("./");
  show(new DOMParser().parseFromString(await answer.text(), "text/html"));
}

async function updateForever() {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, PERIOD_MS));
    // The sandbox may be stopped for a while.
    await update().catch(() => {});
  }
}

updateForever();
