// All that is known of one decision: what was left out, every score and the time of each step.

import { element } from "./dom.js";
import { duration, percent, plural } from "./texts.js";

const line = (text) => element("p", { text });
const score = (number) => number.toFixed(2);

export function decisionDetail(decision) {
  const parts = [line(facts(decision))];
  if (decision.rejection) {
    const { status, code, details, message } = decision.rejection;
    parts.push(line(`Rejected with ${status} ${code}, ${details}: ${message}`));
  }
  for (const { by, plugin, count, endpoints } of decision.leftOut) {
    parts.push(line(`${plural(count, "endpoint")} left out by ${plugin || by}: ${some(endpoints, count)}`));
  }
  parts.push(...decision.profiles.flatMap(profileDetail));
  if (decision.steps.length) parts.push(element("h3", { text: "Time of each step" }), stepTable(decision));
  return parts;
}

function facts(decision) {
  const phases = decision.phases.map(({ name, seconds }) => `${name} ${duration(seconds)}`);
  const pool = decision.poolSize === null ? [] : [`${plural(decision.poolSize, "endpoint")} in the pool`];
  return [
    `request ${decision.requestId}`,
    decision.path,
    `priority ${decision.priority}`,
    `fairness id ${decision.fairnessId}`,
    ...pool,
    ...phases,
  ].join(" · ");
}

function some(addresses, count) {
  const hidden = count - addresses.length;
  return addresses.join(", ") + (hidden > 0 ? `${addresses.length ? " and " : ""}${hidden} more` : "");
}

function profileDetail(profile) {
  const role = profile.role ? `, ${profile.role}` : "";
  const title = `Profile ${profile.name}${role}${profile.isPrimary ? ", primary" : ""}`;
  const parts = [element("h3", { text: title }), line(profile.reason)];
  for (const { plugin, before, after, removed } of profile.filters) {
    const names = removed.length ? `: without ${some(removed, before - after)}` : "";
    parts.push(line(`Filter ${plugin}: ${before} → ${after}${names}`));
  }
  if (profile.endpoints.length) parts.push(scoreTable(profile, title));
  if (profile.endpoints.some(({ load }) => load)) {
    parts.push(line("Load as it was reported by then"), loadTable(profile, title));
  }
  if (profile.notShown) parts.push(line(`and ${profile.notShown} more`));
  return parts;
}

function stepTable({ steps, profiles }) {
  const took = steps.map(({ extensionPoint, plugin, profile, seconds, failed }) =>
    [`${duration(seconds)}${failed ? ", failed" : ""}`, extensionPoint, plugin, profile]);
  const kept = profiles.flatMap(({ name, scorers }) =>
    scorers.filter(({ isKept }) => isKept).map(({ plugin }) => ["kept", "Scorer", plugin, name]));
  const head = ["Time", "Step", "Plugin", "Profile"].map((text, at) =>
    element("th", { scope: "col", class: at ? null : "number", text }));
  const rows = [...took, ...kept].map((cells) => element(
    "tr",
    {},
    ...cells.map((text, at) => element("td", { class: at ? null : "number", text })),
  ));
  return element(
    "table",
    { "aria-label": "Time of each step" },
    element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...rows),
  );
}

function loadTable({ endpoints }, title) {
  const head = ["Endpoint", "Waiting", "Running", "KV cache", "Age"].map((text, at) =>
    element("th", { scope: "col", class: at ? "number" : null, text }));
  const rows = endpoints.map(({ address, load }) => {
    const cells = load
      ? [load.waiting, load.running, percent(load.kvCacheUsage), duration(load.ageSeconds)]
      : ["", "", "", "never heard of"];
    return element(
      "tr",
      {},
      element("th", { scope: "row", text: address }),
      ...cells.map((text) => element("td", { class: "number", text: String(text) })),
    );
  });
  return element(
    "table",
    { "aria-label": `Load as it was reported, ${title}` },
    element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...rows),
  );
}

function scoreTable(profile, title) {
  const head = [
    element("th", { scope: "col", text: "Endpoint" }),
    element("th", { scope: "col", class: "number", text: "Total" }),
    ...profile.scorers.map(({ plugin, weight }) =>
      element("th", { scope: "col", class: "number", text: `${plugin} × ${weight}` })),
    element("th", { scope: "col", text: "Picked" }),
  ];
  const rows = profile.endpoints.map((endpoint) => element(
    "tr",
    { class: endpoint.picked ? "picked" : null },
    element("th", { scope: "row", text: endpoint.address }),
    element("td", { class: "number", text: score(endpoint.total) }),
    ...endpoint.scores.map((each) =>
      element("td", { class: "number", "data-heat": Math.ceil(each * 5), text: score(each) })),
    element("td", { text: endpoint.picked ? String(endpoint.picked) : "" }),
  ));
  return element(
    "table",
    { "aria-label": `Scores, ${title}` },
    element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...rows),
  );
}
