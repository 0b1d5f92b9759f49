"""What batches add to the faces: routes, pages, commands, and tools for agents."""
