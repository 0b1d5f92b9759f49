"""The MCP server: an assistant's agents make, see, change and stop their own schedules, within the guard rails.

Over stdio it is the agent of the group that it was started for; over HTTP the agent that its token is narrowed to.
"""

from rota.mcp.http import McpEndpoint
from rota.mcp.server import AgentServer
from rota.mcp.stdio import serve_stdio

__all__ = ["AgentServer", "McpEndpoint", "serve_stdio"]
