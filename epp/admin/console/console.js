// The console: what this picker sees and decides, asked for every second while somebody looks.

import { byId, setAttribute, setText } from "./dom.js";
import { DecisionTable } from "./decisions.js";
import { EndpointTable } from "./endpoints.js";
import { showLogLevel } from "./log_level.js";
import { showConfiguration, showPool, showReadiness } from "./overview.js";
import { ask, Polling, ServerError } from "./polling.js";
import { timeOfDay } from "./texts.js";

const SECOND = 1000;
const endpoints = new EndpointTable();
const decisions = new DecisionTable();
let lastHeard = null;

async function readPool() {
  const pool = await ask("pool");
  showReadiness(pool);
  showPool(pool);
  endpoints.show(pool.endpoints);
}

async function readDecisions() {
  try {
    decisions.show(await ask("decisions?limit=50"));
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    decisions.tell(error.message);
  }
}

const connection = byId("connection");

function tell(problem) {
  setText(connection, problem);
  setAttribute(connection, "class", problem ? "bad" : null);
  document.querySelector("main").classList.toggle("is-old", problem !== "");
}

// A question that fails is no fault of the page: it says since when it knows nothing.
async function telling(round) {
  try {
    await round();
    lastHeard = new Date().toISOString();
    tell("");
  } catch (error) {
    tell(`No answer${lastHeard ? ` since ${timeOfDay(lastHeard).slice(0, 8)}` : ""}: ${error.message}`);
  }
}

const pollings = [
  new Polling(SECOND, () => telling(() => Promise.all([readPool(), readDecisions()]))),
  new Polling(10 * SECOND, () => ask("configuration").then(showConfiguration, () => {})),
  new Polling(10 * SECOND, () => ask("log-level").then(showLogLevel, () => {})),
];
for (const polling of pollings) polling.start();

const pause = byId("pause");
pause.addEventListener("click", () => {
  const paused = pause.getAttribute("aria-pressed") !== "true";
  pause.setAttribute("aria-pressed", String(paused));
  for (const polling of pollings) polling.paused = paused;
});
