"""Many model servers in one process: each has a port, and pages of metrics in turn.

Prints the ports and serves until it is killed. Where it is given a file, that holds how many pages
were served, as eight bytes.
"""

from __future__ import annotations

import asyncio
import mmap
import sys
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import cast

from epp.support.event_loop import run_in_loop

MODEL = "meta-llama/Llama-3.1-8B"
PAGES = 16


def page_of(size: int, turn: int = 0) -> bytes:
    """A page as vLLM writes it, of about `size` bytes: what matters is in the middle.

    With each turn numbers change, and some become longer.
    """
    lines = [
        "# HELP vllm:num_requests_running Number of requests in model execution batches.",
        "# TYPE vllm:num_requests_running gauge",
        f'vllm:num_requests_running{{engine="0",model_name="{MODEL}"}} {turn * 3}.0',
        "# HELP vllm:num_requests_waiting Number of requests waiting to be processed.",
        "# TYPE vllm:num_requests_waiting gauge",
        f'vllm:num_requests_waiting{{engine="0",model_name="{MODEL}"}} {turn * 7}.0',
        "# HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.",
        "# TYPE vllm:kv_cache_usage_perc gauge",
        f'vllm:kv_cache_usage_perc{{engine="0",model_name="{MODEL}"}} {turn / 17}',
    ]
    filler = 'vllm:time_to_first_token_seconds_bucket{{engine="0",le="{}",model_name="m"}} {}.0'
    length = sum(map(len, lines))
    number = 0
    lines += [
        "# TYPE vllm:lora_requests_info gauge",
        'vllm:lora_requests_info{max_lora="4",running_lora_adapters="a, b",'
        'waiting_lora_adapters=""} 1.7e+09',
        "# TYPE vllm:cache_config_info gauge",
        'vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="27000"} 1.0',
    ]
    while length < size:
        line = filler.format(number / 1000, number * 10 ** (turn % 3))
        lines.insert(0 if number % 2 else len(lines), line)
        length += len(line) + 1
        number += 1
    return "\n".join(lines).encode() + b"\n"


class Server(asyncio.Protocol):
    """Answers whatever comes, once for each read."""

    def __init__(self, answers: Sequence[bytes], served: memoryview[int]) -> None:
        self._answers = cycle(answers)
        self._served = served
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(next(self._answers))
        self._served[0] += 1


def counter(file: Path) -> memoryview[int]:
    """A number whose value can be read from a file at any time: `read_counter`."""
    file.write_bytes(bytes(8))
    with file.open("r+b") as opened:
        return memoryview(mmap.mmap(opened.fileno(), 8)).cast("Q")


def read_counter(file: Path) -> int:
    """How many pages were served so far."""
    return int.from_bytes(file.read_bytes(), sys.byteorder)


def answer_of(page: bytes) -> bytes:
    """An answer as uvicorn writes it."""
    head = "HTTP/1.1 200 OK\r\ndate: Mon, 01 Jan 2024 00:00:00 GMT\r\nserver: uvicorn\r\n"
    kind = "content-type: text/plain; version=0.0.4; charset=utf-8\r\n"
    return f"{head}content-length: {len(page)}\r\n{kind}\r\n".encode() + page


async def serve(count: int, size: int, served: memoryview[int]) -> None:
    """Listen on `count` ports for ever."""
    answers = [answer_of(page_of(size, turn)) for turn in range(PAGES)]
    loop = asyncio.get_running_loop()
    servers = [
        await loop.create_server(lambda: Server(answers, served), "127.0.0.1", 0)
        for _ in range(count)
    ]
    print("ports", *[server.sockets[0].getsockname()[1] for server in servers], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    pages = counter(Path(sys.argv[3])) if len(sys.argv) > 3 else memoryview(bytearray(8)).cast("Q")
    run_in_loop(serve(int(sys.argv[1]), int(sys.argv[2]), pages))
