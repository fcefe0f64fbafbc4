"""Hands on connections from an address or a socket's path to another one: `relay.py FROM TO`."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress


async def hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    with suppress(OSError):
        writer.close()


async def serve(here: str, there: str) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if there.startswith("/"):
                far_reader, far_writer = await asyncio.open_unix_connection(there)
            else:
                far_reader, far_writer = await asyncio.open_connection(*there.split(":"))
        except OSError:
            writer.close()
            return
        await asyncio.gather(hand_on(reader, far_writer), hand_on(far_reader, writer))

    if here.startswith("/"):
        server = await asyncio.start_unix_server(connected, here)
    else:
        server = await asyncio.start_server(connected, *here.split(":"))
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
