"""Connects with the official Python SDK, from only a URL: `python mcp_connect.py URL EMAIL PASSWORD`.

It prints one JSON object for each step, and waits for a line on standard input before the next step.
"""

import asyncio
import json
import os
import sys

import httpx2
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

from consent import allow

URL, EMAIL, PASSWORD = sys.argv[1:]
CALLBACK = "http://127.0.0.1:9/callback"


def say(**step):
    print(json.dumps(step), flush=True)


async def waited():
    await asyncio.to_thread(sys.stdin.readline)


class Kept:
    """What the client keeps."""

    tokens = None
    client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


async def main():
    kept = Kept()
    asked = []

    async def redirect(url):
        asked.append(url)

    async def callback():
        answer = await asyncio.to_thread(allow, asked[-1], EMAIL, PASSWORD)
        return AuthorizationCodeResult(code=answer["code"], state=answer.get("state"), iss=answer.get("iss"))

    metadata = OAuthClientMetadata(client_name="A Python agent", redirect_uris=[CALLBACK], token_endpoint_auth_method="none")
    provider = OAuthClientProvider(URL, metadata, kept, redirect, callback)
    async with httpx2.AsyncClient(auth=provider, timeout=30) as http:
        async with Client(streamable_http_client(URL, http_client=http)) as client:

            async def call():
                made = await client.call_tool("notes_create", {"title": "by an agent"})
                return bool(made.is_error)

            tools = [tool.name for tool in (await client.list_tools()).tools]
            say(tools=tools, failed=await call(), registered=kept.client is not None, asked=len(asked))
            await waited()
            before = kept.tokens
            # The client uses its own clock.
            provider.context.token_expiry_time = 1
            failed = await call()
            is_new = kept.tokens.access_token != before.access_token
            say(failed=failed, is_new=is_new and kept.tokens.refresh_token != before.refresh_token, asked=len(asked))
            await waited()

            async def refuse():
                raise OAuthFlowError("nobody answers")

            provider.context.callback_handler = refuse
            refused = False
            try:
                await asyncio.wait_for(call(), 30)
            except BaseException:
                refused = True
            say(refused=refused, asked=len(asked))
            os._exit(0)


asyncio.run(main())
