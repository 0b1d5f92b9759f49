"""What memory adds to the faces: routes, pages and commands."""
