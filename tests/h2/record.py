"""Records what clients say to the native transport: `python -m tests.h2.record`, for the corpus."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from epp.gateway.service import METHOD
from tests.benchmarks.traffic import FULL_DUPLEX, STREAMED
from tests.fakes.transport import interop
from tests.fakes.transport.grpc_clients import Grpcio, Grpclib
from tests.fakes.transport.grpc_go import GrpcGo
from tests.fakes.transport.interop import CALLS, COMPRESSED, Call, Client
from tests.fakes.transport.native_streams import PATH
from tests.fakes.transport.streams import CountingObserver
from tests.h2.conversations import CORPUS

SAID = {
    "request": interop.exchange(1, 5, FULL_DUPLEX),
    "large": interop.exchange(70, 2, STREAMED),
    "echoes": Call(steps=(b"a", 1, b"", b"c" * 700, 2, b"flood", 40), path=PATH),
    "error": CALLS["an error after a message"],
    "deadline": CALLS["a deadline"],
    "unknown": CALLS["an unknown method"],
    "metadata": CALLS["metadata"],
    "cancel": CALLS["a client that cancels"],
}


@asynccontextmanager
async def listening(port: int, said: bytearray) -> AsyncIterator[int]:
    """A relay that remembers what comes from the client."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)

        async def pump(
            source: asyncio.StreamReader, sink: asyncio.StreamWriter, copy: bytearray | None
        ) -> None:
            with suppress(ConnectionError):
                while part := await source.read(65_536):
                    if copy is not None:
                        copy.extend(part)
                    sink.write(part)
            sink.close()

        await asyncio.gather(pump(reader, there_writer, said), pump(there_reader, writer, None))

    relay = await asyncio.start_server(carry, "127.0.0.1", 0)
    yield int(relay.sockets[0].getsockname()[1])
    relay.close()


async def main() -> None:
    """One file per client and call."""
    server = interop.server(None, CountingObserver())
    port = await server.start()
    clients: dict[str, Client] = {"grpcio": Grpcio(), "grpclib": Grpclib(), "go": GrpcGo()}
    for client_name, client in clients.items():
        for name, call in {**SAID, "compressed": COMPRESSED}.items():
            if (client_name == "grpclib" and call.is_compressed) or (
                client_name != "go" and name == "large"
            ):
                continue
            said = bytearray()
            async with listening(port, said) as relay_port:
                await client.make(relay_port, call, None)
                await asyncio.sleep(0.05)
            (CORPUS / f"{client_name}-{name}.bin").write_bytes(said)
            print(client_name, name, METHOD if call.path == METHOD else "", len(said))
    await server.stop(0)


if __name__ == "__main__":
    asyncio.run(main())
