"""The MCP server: an assistant's agents make, see, change and stop their own schedules, within the guard rails.

Over stdio it is the agent of the group that it was started for (`stdio`); over HTTP the agent that its token is
narrowed to (`http`); over its own socket a scheduled run (`runs`). Nothing is imported here: the SDK is slow to load,
and most services see no agent.
"""
