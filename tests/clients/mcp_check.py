"""Holds `recapd mcp` and `/mcp` to the official Python client of the Model Context Protocol, in both eras.

    mcp_check.py RECAPD URL DATABASE      a daemon listens at URL, over DATABASE
"""

import asyncio
import importlib.metadata
import json
import os
import sys
import urllib.request
import warnings

os.environ["NO_PROXY"] = "127.0.0.1"
warnings.simplefilter("ignore")

from mcp import Client, MCPError, StdioServerParameters  # noqa: E402
from mcp_types import PromptReference, ResourceTemplateReference, ResourceUpdatedNotification  # noqa: E402

PATIENCE_SECONDS = 60
TEMPLATE = "recapd://agents/{agent_id}/summary.md"
TOOLS = ["summary_get", "recall", "expand", "status"]


def converse(url, agent, exchanges):
    for number in exchanges:
        said = [
            {"kind": "user", "content": f"Fix bug {number} in parser.rs\n" + "please " * 30},
            {"kind": "assistant", "content": f"Fixed bug {number}: the loop ended too early."},
        ]
        request = urllib.request.Request(
            f"{url}/v1/agents/{agent}/messages", json.dumps(said).encode(), {"content-type": "application/json"}
        )
        urllib.request.urlopen(request, timeout=PATIENCE_SECONDS).read()


async def summarised(url, agent):
    """Until nothing is pending, so that two reads give the same."""
    converse(url, agent, range(1, 9))
    for _ in range(PATIENCE_SECONDS * 10):
        with urllib.request.urlopen(f"{url}/v1/agents/{agent}/summary") as answer:
            if int(answer.headers["recapd-version"]) > 0 and answer.headers["recapd-pending-exchanges"] == "0":
                return
        await asyncio.sleep(0.1)
    raise AssertionError("no summary came")


async def refused(call, code):
    try:
        await call
    except MCPError as error:
        assert error.code == code, error
    else:
        raise AssertionError("it was answered")


async def read_everything(client, agent, later):
    uri = TEMPLATE.format(agent_id=agent)
    resources = (await client.list_resources()).resources
    found = next(resource for resource in resources if resource.uri == uri)
    assert found.mime_type == "text/markdown" and found.annotations.audience == ["assistant"]
    templates = (await client.list_resource_templates()).resource_templates
    assert [template.uri_template for template in templates][0] == TEMPLATE
    document = (await client.read_resource(uri)).contents[0].text
    assert "Fix bug 1" in document, document
    alias = (await client.read_resource(f"ikigai:///summaries/{agent}.md")).contents[0].text
    assert alias == document
    json.loads((await client.read_resource(f"recapd://agents/{agent}/window.json")).contents[0].text)
    assert "~~~~text" in (await client.read_resource(f"recapd://agents/{agent}/history.md")).contents[0].text
    await refused(client.read_resource(TEMPLATE.format(agent_id="nobody")), -32602 if later else -32002)

    tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == TOOLS
    assert all(tool.annotations.read_only_hint and not tool.output_schema for tool in tools)
    for name, arguments in [
        ("summary_get", {"agent": agent}),
        ("recall", {"agent": agent, "query": "bug parser"}),
        ("expand", {"agent": agent, "exchanges": "#1–#2"}),
        ("status", {"agent": agent}),
        ("status", {}),
    ]:
        # Hosts that get data beside a text show their models the data alone.
        result = await client.call_tool(name, arguments)
        assert not result.is_error and result.content[0].text and not result.structured_content, result
    wrong = await client.call_tool("recall", {"agent": agent})
    assert wrong.is_error and "`query` is missing" in wrong.content[0].text, wrong
    prompt = await client.get_prompt("summary", {"agent": agent})
    assert "Fix bug 1" in prompt.messages[0].content.text
    for reference, name in [
        (ResourceTemplateReference(uri=TEMPLATE), "agent_id"),
        (PromptReference(name="summary"), "agent"),
    ]:
        completed = await client.complete(reference, {"name": name, "value": agent[:3]})
        assert agent in completed.completion.values, completed


async def hear_of_changes(client, url, agent, notices, later):
    uri = TEMPLATE.format(agent_id=agent)
    if later:
        async with client.listen(resource_subscriptions=[uri]) as subscription:
            # What there is, and what changes.
            for number in (9, 10):
                converse(url, agent, [number])
                event = await asyncio.wait_for(anext(aiter(subscription)), PATIENCE_SECONDS)
                assert event.uri == uri, event
    else:
        await client.subscribe_resource(uri)
        heard = await heard_while_talking(notices.get(), url, agent)
        assert heard.params.uri == uri, heard
        await client.unsubscribe_resource(uri)


async def heard_while_talking(notice, url, agent):
    """The notice of the earlier era; as long as its stream is being opened nothing may be heard, so that more is said."""
    hearing = asyncio.ensure_future(notice)
    for number in range(9, 9 + PATIENCE_SECONDS):
        converse(url, agent, [number])
        if (await asyncio.wait([hearing], timeout=1))[0]:
            break
    assert hearing.done(), "nothing was heard"
    return await hearing


async def check(name, server, mode, url, hears=True):
    notices = asyncio.Queue()

    async def on_message(message):
        if isinstance(message, ResourceUpdatedNotification):
            notices.put_nowait(message)

    agent = name.replace(" ", "-")
    await summarised(url, agent)
    async with Client(server, mode=mode, message_handler=on_message) as client:
        later = client.protocol_version >= "2026-07-28"
        assert later == (mode != "legacy"), client.protocol_version
        await read_everything(client, agent, later)
        if hears:
            await hear_of_changes(client, url, agent, notices, later)
        version = client.protocol_version
    print(f"python  mcp {importlib.metadata.version('mcp')}  {name}  {version}  fine")


async def main(recapd, url, database):
    def started(*arguments):
        return StdioServerParameters(command=recapd, args=["mcp", *arguments, "--set", "log.level=error"])

    for mode, era in [("legacy", "earlier"), ("auto", "later")]:
        await check(f"py http {era}", f"{url}/mcp", mode, url)
        await check(f"py stdio daemon {era}", started("--server", url), mode, url)
        await check(f"py stdio database {era}", started("--db", database), mode, url)


asyncio.run(main(*sys.argv[1:]))
