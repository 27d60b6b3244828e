"""grpc-go, making the calls of `interop` in a process of its own."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from epp.transport.certificates import CertificatePair
from tests.fakes.transport.interop import Call, Outcome

BUILD = Path(__file__).parents[2] / "h2" / "grpcgo" / "build.sh"


class GrpcGo:
    """Go's implementation, which the peers and many gateways use."""

    def __init__(self) -> None:
        built = subprocess.run([BUILD], check=True, capture_output=True, text=True)
        self._program = built.stdout.strip()

    async def make(self, port: int, call: Call, tls: CertificatePair | None) -> Outcome:
        """Make one call on a connection of its own."""
        ((outcome,),) = await self.make_all(port, [call], tls)
        return outcome

    async def make_all(
        self, port: int, calls: Sequence[Call], tls: CertificatePair | None, connections: int = 1
    ) -> list[list[Outcome]]:
        """Make all calls at once, on each of some connections."""
        order = {
            "target": f"passthrough:{'localhost' if tls else '127.0.0.1'}:{port}",
            "ca": tls.chain.decode() if tls is not None else "",
            "connections": connections,
            "calls": [_written(call) for call in calls],
        }
        process = await asyncio.create_subprocess_exec(
            self._program, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        told, _ = await process.communicate(json.dumps(order).encode())
        assert process.returncode == 0
        return [[_read(outcome) for outcome in outcomes] for outcomes in json.loads(told)]


def _written(call: Call) -> dict[str, object]:
    return {
        "steps": [
            {"send": base64.b64encode(step).decode()} if isinstance(step, bytes) else {"read": step}
            for step in call.steps
        ],
        "path": call.path,
        "end": call.end,
        "timeout": call.timeout or 0,
        "metadata": dict(call.metadata),
        "compressed": call.is_compressed,
    }


def _read(outcome: dict[str, object]) -> Outcome:
    answers, code = outcome["answers"] or [], outcome["code"]
    assert isinstance(answers, list)
    assert isinstance(code, int)
    return Outcome(
        code=code,
        message=str(outcome["message"]),
        answers=[base64.b64decode(answer or "") for answer in answers],
    )
