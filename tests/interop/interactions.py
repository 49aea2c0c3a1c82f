"""Appends an interaction that is given as the hex of its bytes, or reads one so.

Run: python interactions.py URL append CONVERSATION HEX
     python interactions.py URL get CONVERSATION ID
"""

import asyncio
import sys

import a11_grpc


async def main(url: str, verb: str, conversation: str, what: str) -> None:
    async with a11_grpc.connect(url) as client:
        if verb == "append":
            interaction = a11_grpc.Interaction.FromString(bytes.fromhex(what))
            await client.interactions.append(conversation, interaction)
        else:
            record = await client.interactions.get(conversation, what)
            print(record.interaction.SerializeToString(deterministic=True).hex())


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:]))
    except a11_grpc.StatusError as error:
        print(error.code.name)
