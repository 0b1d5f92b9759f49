"""What events add to the faces: routes, pages and commands."""
