// Readiness, pool and configuration.

import { byId, setAttribute, setList, setPairs, setText } from "./dom.js";
import { plural } from "./texts.js";

export function showReadiness({ ready, notReadyReasons }) {
  const target = byId("readiness");
  setText(target, ready ? "Ready" : `Not ready: ${notReadyReasons.join(", ")}`);
  setAttribute(target, "class", ready ? "good" : "bad");
}

export function showPool({ pool, failureModeInForce, problems, podsWithoutEndpoint }) {
  const labels = (map) => Object.entries(map).map(([key, value]) => `${key}=${value}`).join(", ");
  const facts = pool
    ? [
        ["Name", `${pool.namespace}/${pool.name}`],
        ["Selector", labels(pool.matchLabels)],
        ["Target ports", pool.targetPorts.join(", ")],
        ["Protocol", pool.appProtocol || "–"],
      ]
    : [["Name", "no pool"]];
  setPairs(byId("pool"), [...facts, ["Failure mode in force", failureModeInForce]]);
  showProblems(problems);
  byId("pods").hidden = podsWithoutEndpoint.length === 0;
  setText(byId("pods-summary"), `${plural(podsWithoutEndpoint.length, "pod")} without an endpoint`);
  setList(byId("pods-list"), podsWithoutEndpoint.map((pod) => `${pod.namespace}/${pod.name}: ${pod.reason}`));
}

function showProblems(problems) {
  byId("problems").hidden = problems.length === 0;
  setList(byId("problems"), problems);
}

export function showConfiguration({ version, source, profiles, document, problem }) {
  setText(byId("version"), `version ${version}`);
  const rows = [["Source", source], ...profiles.map((profile) => ["Picks by", profile])];
  setPairs(byId("configuration"), problem ? [...rows, ["Not in force", problem]] : rows);
  setText(byId("document"), document);
}
