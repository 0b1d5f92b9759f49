"""The MCP server: an assistant's agents make, see, change and stop their own schedules, within the guard rails.

Over stdio it is the agent of the group that it was started for (`rota.agents.faces.mcp.stdio`); over HTTP the agent that its token
is narrowed to (`rota.agents.faces.mcp.http`); over its own socket a scheduled run (`rota.agents.faces.mcp.runs`). Nothing is imported here: the
SDK is slow to load, and most services see no agent.
"""
