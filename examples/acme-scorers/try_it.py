from pathlib import Path

from epp.framework import EndpointMetrics
from epp.library import Picker

picker = Picker.from_config(Path("picker.yaml").read_text())
picker.add("10.0.0.1:8000")
picker.add("10.0.0.2:8000")
picker.observe("10.0.0.1:8000", EndpointMetrics(waiting_queue_size=40))
picker.observe("10.0.0.2:8000", EndpointMetrics(waiting_queue_size=2))

with picker.pick(model="llama", prompt="Why is the sky blue?") as pick:
    print(pick.address)
