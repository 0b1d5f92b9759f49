"""What agents add to the faces: routes, pages, commands, and the MCP server."""
