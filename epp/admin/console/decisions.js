// Decisions as they happen, the newest first; one that is opened stays open and tells its scores.

import { byId, element, setText } from "./dom.js";
import { decisionDetail } from "./decision_detail.js";
import { ask } from "./polling.js";
import { duration, timeOfDay } from "./texts.js";

const COLUMNS = 7;
const OUTCOME_CLASSES = { picked: "good", "fail-open": "warn", rejected: "bad" };

// Ids may come again: what never changes of a decision tells them apart, and then their order.
const keyOf = (d) => JSON.stringify([d.requestId, d.path, d.model, d.seconds, d.outcome, d.endpoints]);

function keysOf(decisions) {
  const seen = new Map();
  return decisions.map((d) => {
    const key = keyOf(d);
    const count = seen.get(key) ?? 0;
    seen.set(key, count + 1);
    return `${key}${count}`;
  });
}

export class DecisionTable {
  #rows = new Map();
  #opened = 0;

  constructor() {
    this.body = byId("decisions-rows");
    this.count = byId("decisions-count");
  }

  show({ decisions, kept, size }) {
    setText(this.count, `the last ${decisions.length} of ${kept} kept (--decision-log-size ${size})`);
    const keys = keysOf(decisions);
    const wanted = new Set(keys);
    for (const [key, entry] of this.#rows) {
      // What somebody reads, or has the focus on, stays until it is closed.
      if (!wanted.has(key) && !entry.isOpen && !entry.row.contains(document.activeElement)) {
        entry.row.remove();
        this.#rows.delete(key);
      }
    }
    let before = null;
    decisions.forEach((decision, at) => {
      const entry = this.#rows.get(keys[at]) ?? this.#add(keys[at], decision);
      const place = before ? before.nextSibling : this.body.firstChild;
      if (!entry.isPlaced) this.body.insertBefore(entry.row, place);
      entry.isPlaced = true;
      before = entry.detail ?? entry.row;
    });
  }

  tell(problem) {
    setText(this.count, problem);
  }

  #add(key, decision) {
    const button = element("button", {
      type: "button",
      class: "expander",
      "aria-expanded": "false",
      text: timeOfDay(decision.decidedAt),
      title: decision.decidedAt,
    });
    const model = decision.targetModel && decision.targetModel !== decision.model
      ? `${decision.model} → ${decision.targetModel}`
      : decision.model;
    const row = element(
      "tr",
      {},
      element("th", { scope: "row" }, button),
      element("td", { class: "name id", text: decision.requestId, title: decision.requestId }),
      element("td", { class: "name", text: model, title: model }),
      element("td", { class: OUTCOME_CLASSES[decision.outcome], text: decision.outcome }),
      element("td", { text: decision.endpoints[0] ?? "–", title: decision.endpoints.join(", ") }),
      element("td", { class: "number", text: duration(decision.seconds) }),
      element("td", { class: "reason", text: decision.reason }),
    );
    const entry = { row, button, decision, detail: null, isOpen: false, isPlaced: false };
    button.addEventListener("click", () => this.#toggle(entry));
    this.#rows.set(key, entry);
    return entry;
  }

  async #toggle(entry) {
    entry.isOpen = !entry.isOpen;
    entry.button.setAttribute("aria-expanded", String(entry.isOpen));
    if (!entry.isOpen) {
      entry.detail.remove();
      entry.detail = null;
      entry.button.removeAttribute("aria-controls");
      return;
    }
    const id = `decision-${(this.#opened += 1)}`;
    const cell = element("td", { colspan: COLUMNS, text: "Asking …" });
    const detail = element("tr", { id, class: "detail" }, cell);
    entry.detail = detail;
    entry.row.after(detail);
    entry.button.setAttribute("aria-controls", id);
    try {
      const found = await ask(`decisions/${encodeURIComponent(entry.decision.requestId)}`);
      const same = found.find((each) => keyOf(each) === keyOf(entry.decision));
      if (same) cell.replaceChildren(...decisionDetail(same));
      else setText(cell, `Only the last ${found.length} decisions of an id are told.`);
    } catch (error) {
      setText(cell, error.message);
    }
  }
}
