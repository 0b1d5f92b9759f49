"""What alerts add to the faces: routes, pages and commands."""
