// The endpoints as a heat table. Of many only the first rows are made, and only cells that changed are touched.

import { byId, element, setAttribute, setText } from "./dom.js";
import { duration, percent, plural } from "./texts.js";

const STEP = 100;
const HOTTEST = 5;

const heard = (endpoint) => endpoint.metricsAgeSeconds !== null;
const reported = (endpoint, text) => (heard(endpoint) ? text : "–");

const STATES = [
  { name: "ejected", applies: (e) => e.isEjected, kind: "bad" },
  { name: "stale", applies: (e) => e.isStale, kind: "warn" },
];

const statesOf = (endpoint) => STATES.filter(({ applies }) => applies(endpoint));
const state = (endpoint) => statesOf(endpoint).map(({ name }) => name).join(", ") || "ok";

// `heat`: how much of the hottest; null: none. A number is compared with the highest of all endpoints.
const COLUMNS = [
  { title: "Name", value: (e) => `${e.namespace}/${e.name}`, isText: true },
  { title: "Address", value: (e) => e.address, isText: true },
  {
    title: "State",
    value: (e) => (e.isEjected ? 2 : 0) + (e.isStale ? 1 : 0),
    text: state,
    kind: (e) => statesOf(e)[0]?.kind ?? "good",
  },
  { title: "In flight", value: (e) => e.inFlight, text: (e) => String(e.inFlight), isHot: true },
  { title: "Recent picks", value: (e) => e.recentPicks, text: (e) => String(e.recentPicks), isHot: true },
  { title: "Running", value: (e) => e.running, text: (e) => reported(e, String(e.running)), isHot: true },
  { title: "Queue", value: (e) => e.waiting, text: (e) => reported(e, String(e.waiting)), isHot: true },
  {
    title: "KV cache",
    value: (e) => e.kvCacheUsage,
    text: (e) => reported(e, percent(e.kvCacheUsage)),
    isHot: true,
    most: 1,
  },
  {
    title: "Prefix share",
    value: (e) => e.prefixShare ?? -1,
    text: (e) => (e.prefixShare === null ? "–" : percent(e.prefixShare)),
    isHot: true,
  },
  {
    title: "Heard",
    value: (e) => e.metricsAgeSeconds ?? Infinity,
    text: (e) => (heard(e) ? `${duration(e.metricsAgeSeconds)} ago` : "never"),
  },
];

function compare(left, right) {
  if (typeof left === "string") return left.localeCompare(right, "en", { numeric: true });
  return left === right ? 0 : left < right ? -1 : 1;
}

export class EndpointTable {
  #all = [];
  #shown = STEP;
  #sort = { column: COLUMNS[0], falls: false };
  #rows = [];

  constructor() {
    this.body = byId("endpoints-rows");
    this.filter = byId("filter");
    this.more = byId("more");
    this.heads = COLUMNS.map((column) => this.#head(column));
    byId("endpoints-head").append(...this.heads);
    this.filter.addEventListener("input", () => {
      this.#shown = STEP;
      this.#render();
    });
    this.more.addEventListener("click", () => {
      this.#shown += STEP;
      this.#render();
    });
  }

  show(endpoints) {
    this.#all = endpoints;
    this.#render();
  }

  #head(column) {
    const button = element("button", { type: "button", text: column.title });
    button.addEventListener("click", () => {
      const again = this.#sort.column === column;
      this.#sort = { column, falls: again ? !this.#sort.falls : !column.isText };
      this.#render();
    });
    return element("th", { scope: "col", class: column.isText || column.kind ? null : "number" }, button);
  }

  #render() {
    const wanted = this.filter.value.trim().toLowerCase();
    const found = this.#all.filter((e) => this.#matches(e, wanted));
    const { column, falls } = this.#sort;
    const sign = falls ? -1 : 1;
    found.sort((a, b) => sign * compare(column.value(a), column.value(b)) || compare(a.address, b.address));
    const most = COLUMNS.map((c) => c.most ?? Math.max(0, ...this.#all.map((e) => (c.isHot ? c.value(e) : 0))));
    const rows = found.slice(0, this.#shown);
    while (this.#rows.length > rows.length) this.#rows.pop().remove();
    rows.forEach((endpoint, at) => this.#fill(this.#row(at), endpoint, most));
    this.#tell(found.length, rows.length);
  }

  #matches(endpoint, wanted) {
    const text = `${endpoint.namespace}/${endpoint.name} ${endpoint.address} ${state(endpoint)}`;
    return text.toLowerCase().includes(wanted);
  }

  #row(at) {
    if (at === this.#rows.length) {
      const cells = COLUMNS.map((column, place) => {
        const kind = column.isText ? "name" : column.kind ? null : "number";
        return place ? element("td", { class: kind }) : element("th", { scope: "row", class: kind });
      });
      this.#rows.push(this.body.appendChild(element("tr", {}, ...cells)));
    }
    return this.#rows[at];
  }

  #fill(row, endpoint, most) {
    COLUMNS.forEach((column, at) => {
      const cell = row.children[at];
      const value = column.value(endpoint);
      setText(cell, column.text ? column.text(endpoint) : value);
      if (column.kind) setAttribute(cell, "class", column.kind(endpoint));
      if (column.isHot) {
        const step = most[at] > 0 ? Math.ceil((HOTTEST * Math.max(0, value)) / most[at]) : 0;
        setAttribute(cell, "data-heat", Math.min(HOTTEST, step));
      }
    });
  }

  #tell(found, shown) {
    COLUMNS.forEach((column, at) => {
      const sorted = column === this.#sort.column;
      setAttribute(this.heads[at], "aria-sort", sorted ? (this.#sort.falls ? "descending" : "ascending") : null);
    });
    const all = plural(this.#all.length, "endpoint");
    const odd = STATES
      .map(({ name, applies }) => [name, this.#all.filter(applies).length])
      .flatMap(([name, count]) => (count ? [`${count} ${name}`] : []));
    const first = found === this.#all.length ? all : `${found} of ${all}`;
    setText(byId("endpoints-count"), [first, ...odd].join(", "));
    this.more.hidden = shown === found;
    setText(this.more, `Show ${Math.min(STEP, found - shown)} more of ${found}`);
  }
}
