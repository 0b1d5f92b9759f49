"""The pictures of the dashboard in `docs/images`: `make pictures` takes them anew, of a real service."""
