"""Drives `heartbeat mcp` with the client of the official Python SDK; prints what it got as JSON."""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters, stdio_client


def text(result):
    return "".join(block.text for block in result.content)


async def main(program, *args):
    calls = json.loads(sys.stdin.read())
    server = StdioServerParameters(command=program, args=list(args))
    got = {"answers": []}
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        hello = await session.initialize()
        got["server"] = hello.server_info.name
        got["instructions"] = hello.instructions
        tools = (await session.list_tools()).tools
        got["tools"] = [tool.name for tool in tools]
        got["reading"] = [tool.name for tool in tools if tool.annotations.read_only_hint]
        got["schemas"] = {tool.name: tool.input_schema for tool in tools}
        for name, arguments in calls:
            try:
                answer = await session.call_tool(name, arguments)
                got["answers"].append({"error": bool(answer.is_error), "text": text(answer)})
            except Exception as error:  # what a client's user would see
                got["answers"].append({"error": True, "refused": str(error)})
        resources = (await session.list_resources()).resources
        got["resources"] = [resource.uri for resource in resources]
        templates = (await session.list_resource_templates()).resource_templates
        got["templates"] = [template.uri_template for template in templates]
        if resources:
            contents = (await session.read_resource(resources[0].uri)).contents
            got["first"] = contents[0].text
        try:
            await session.read_resource("heartbeat://finding/99999999")
        except Exception as error:
            got["missing"] = str(error)
    print(json.dumps(got))


asyncio.run(main(*sys.argv[1:]))
