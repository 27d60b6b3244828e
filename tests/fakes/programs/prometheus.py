"""A real Prometheus, which tests/prometheus/build.sh builds, that reads pickers each second."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.fakes.programs.program import Program

BINARIES = Path(os.environ.get("EPP_PROMETHEUS_BIN") or Path.home() / ".cache/epp-prometheus")
SCRAPE_INTERVAL = "1s"
NAMESPACE = "models"
STEP_SECONDS = 1


def program(name: str) -> Path:
    """Where one of them is, of `prometheus` and `promtool`."""
    path = BINARIES / name
    assert path.exists(), f"{path} is missing; run: make kube-test"
    return path


class Prometheus(Program):
    """Prometheus on a port of the system's choice; what it keeps goes with `folder`."""

    def __init__(self, folder: Path, jobs: Mapping[str, str], rules: Sequence[Path]) -> None:
        """`jobs`: addresses of metrics ports by the name of their job."""
        config = folder / "prometheus.yaml"
        document = {
            "global": {
                "scrape_interval": SCRAPE_INTERVAL,
                "evaluation_interval": SCRAPE_INTERVAL,
            },
            "rule_files": [str(path) for path in rules],
            "scrape_configs": [_job(*job) for job in jobs.items()],
        }
        config.write_text(yaml.safe_dump(document))
        command = [str(program("prometheus")), f"--config.file={config}"]
        command += [f"--storage.tsdb.path={folder / 'data'}", "--web.listen-address=127.0.0.1:0"]
        command += ["--scrape.discovery-reload-interval=100ms"]
        super().__init__("prometheus", command, folder / "prometheus.log")
        self._url = ""
        self._started_at = 0.0

    def start(self) -> None:
        """Start it; returns once it can be asked."""
        self._started_at = time.time()
        super().start()
        told = self.wait_for_line('msg="Listening on"')
        address = re.search(r"\baddress=(\S+)", told)
        assert address is not None, told
        self._url = f"http://{address[1]}"
        self.wait_for_line("ready to receive web requests")

    def values(self, label: str, selector: str) -> list[str]:
        """What a label is in the series of a selector."""
        found: list[str] = self._get(f"label/{label}/values", {"match[]": selector})
        return found

    def numbers(self, expression: str) -> list[float]:
        """Every number of a graph of `expression`, from the start until now."""
        span = {"start": self._started_at, "end": time.time(), "step": STEP_SECONDS}
        found = self._get("query_range", {"query": expression, **span})
        return [float(value) for series in found["result"] for _, value in series["values"]]

    def scrapes(self) -> dict[str, tuple[str, str]]:
        """How the last scrape of each job went: its health and its error."""
        targets = self._get("targets", {"state": "active"})["activeTargets"]
        return {each["scrapePool"]: (each["health"], each["lastError"]) for each in targets}

    def healths(self, file: Path) -> list[str]:
        """How the last evaluation of each rule of a file went: `ok`, or its error."""
        return [rule.get("lastError") or rule["health"] for rule in self._alerts(file)]

    def firing(self, file: Path, job: str) -> set[str]:
        """The alerts of a file that are firing about a job."""
        return {
            rule["name"]
            for rule in self._alerts(file)
            for alert in rule["alerts"]
            if alert["state"] == "firing" and alert["labels"].get("job") == job
        }

    def summaries(self, file: Path) -> set[str]:
        """What the alerts of a file that are firing or about to say."""
        rules = self._alerts(file)
        return {alert["annotations"]["summary"] for rule in rules for alert in rule["alerts"]}

    def _alerts(self, file: Path) -> list[dict[str, Any]]:
        groups = self._get("rules", {"type": "alert", "file[]": str(file)})["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def _get(self, path: str, parameters: dict[str, str | float]) -> Any:
        answer = httpx.get(f"{self._url}/api/v1/{path}", params=parameters)
        assert answer.status_code == httpx.codes.OK, f"{parameters}: {answer.text}"
        told = answer.json()
        assert not told.get("warnings"), f"{parameters}: {told['warnings']}"
        return told["data"]


def _job(name: str, address: str) -> dict[str, object]:
    labels = {"namespace": NAMESPACE}
    return {"job_name": name, "static_configs": [{"targets": [address], "labels": labels}]}
