"""Lodge behind the Copilot SDK for Python: five small things an app does.

    pip install github-copilot-sdk
    LODGE_BIN=/path/to/lodge python app.py

No key and no network are needed: the prompts below are for the built-in rehearsal model, which does what it is told in
plain words (docs/rehearsal.md). With a real model, ask in your own words.
"""

import asyncio
import os
import re
import tempfile

from copilot import CopilotClient, RuntimeConnection
from copilot.session import PermissionHandler
from copilot.session_events import AssistantMessageData, AssistantMessageDeltaData
from copilot.tools import define_tool
from pydantic import BaseModel

LODGE = os.environ.get("LODGE_BIN", "lodge")
HOME = tempfile.mkdtemp(prefix="lodge-example-")
approve_all = PermissionHandler.approve_all


class City(BaseModel):
    city: str


@define_tool("weather", description="The weather in a city")
def weather(params: City) -> str:
    return f"21 degrees in {params.city}"


async def stream_an_answer(client):
    session = await client.create_session(on_permission_request=approve_all, streaming=True)
    text = []

    def on_event(event):
        if isinstance(event.data, AssistantMessageDeltaData):
            text.append(event.data.delta_content)

    session.on(on_event)
    await session.send_and_wait("say streamed word by word")
    print(f"stream: {''.join(text)}")


async def call_our_tool(client):
    session = await client.create_session(on_permission_request=approve_all, tools=[weather])
    answer = await session.send_and_wait('call weather {"city":"Oslo"}')
    print(f"tool: {answer.data.content}")


async def ask_for_permission(client):
    def decide(request, invocation):
        print(f"permission: may it run `{request.full_command_text}`? yes")
        return approve_all(request, invocation)

    session = await client.create_session(on_permission_request=decide)
    answer = await session.send_and_wait('call bash {"command":"touch made && echo allowed"}')
    print(f"permission: {answer.data.content}")


async def start_host():
    """A host of its own, which any number of clients can reach by its address."""
    child = await asyncio.create_subprocess_exec(
        LODGE,
        *["--headless", "--port", "0"],
        env={**os.environ, "COPILOT_HOME": HOME},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    async for line in child.stdout:
        if found := re.search(r"listening on port (\d+)", line.decode()):
            return child, f"127.0.0.1:{found[1]}"
    raise RuntimeError("the host did not start")


async def connect(url):
    client = CopilotClient(connection=RuntimeConnection.for_uri(url))
    await client.start()
    return client


async def kill_the_host_and_resume():
    host, url = await start_host()
    client = await connect(url)
    session = await client.create_session(on_permission_request=approve_all, streaming=True)
    seen, mid_turn = [], asyncio.Event()

    def on_event(event):
        if not event.ephemeral:
            seen.append(event.id)
        if isinstance(event.data, AssistantMessageDeltaData):
            mid_turn.set()

    session.on(on_event)
    await session.send('call bash {"command":"echo hello"} then slowly 2 ms, stream 2000 chunks')
    await mid_turn.wait()
    host.kill()
    await host.wait()
    await client.force_stop()

    host, url = await start_host()
    client = await connect(url)
    resumed = await client.resume_session(session.session_id, on_permission_request=approve_all)
    kept = {event.id for event in await resumed.get_events()}
    answer = await resumed.send_and_wait("say and on it goes")
    print(f"resume: {len([event for event in seen if event not in kept])} events lost; {answer.data.content}")
    await client.stop()
    host.kill()
    await host.wait()


async def two_clients():
    host, url = await start_host()
    one, two = await connect(url), await connect(url)
    mine = await one.create_session(on_permission_request=approve_all)
    yours = await two.resume_session(mine.session_id, on_permission_request=approve_all)
    heard = asyncio.get_running_loop().create_future()

    def on_event(event):
        if isinstance(event.data, AssistantMessageData) and not heard.done():
            heard.set_result(event.data.content)

    yours.on(on_event)
    await mine.send_and_wait("say hello to both of you")
    print(f'two clients: the other one heard "{await heard}"')
    await one.stop()
    await two.stop()
    host.kill()
    await host.wait()


async def main():
    connection = RuntimeConnection.for_stdio(path=LODGE)
    async with CopilotClient(connection=connection, base_directory=HOME) as client:
        await stream_an_answer(client)
        await call_our_tool(client)
        await ask_for_permission(client)
    await kill_the_host_and_resume()
    await two_clients()


asyncio.run(main())
