"""The picker as a library: no gateway, no cluster, no event loop.

picker = Picker.from_config(text)
picker.add("10.0.0.1:8000")
with picker.pick(model="llama", prompt="Hello") as pick:
    send_to(pick.address)
"""

from epp.library.pick import Pick
from epp.library.picker import Picker

__all__ = ["Pick", "Picker"]
