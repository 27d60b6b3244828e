// The level of the log: shown, and changed by choosing another one.

import { byId, element, setText } from "./dom.js";
import { ask } from "./polling.js";

const select = byId("log-level");
const note = byId("log-level-note");
let current = "";

export function showLogLevel({ level, configured, levels }) {
  if (select.options.length !== levels.length) {
    select.replaceChildren(...levels.map((each) => element("option", { text: each })));
  }
  current = level;
  select.value = level;
  setText(note, level === configured ? "" : `configured: ${configured}`);
}

select.addEventListener("change", async () => {
  try {
    showLogLevel(await ask("log-level", { method: "PUT", body: select.value }));
  } catch (error) {
    select.value = current;
    setText(note, `not changed: ${error.message}`);
  }
});
