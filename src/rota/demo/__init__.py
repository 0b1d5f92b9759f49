"""What `rota demo` shows: an application, its workers as real processes, and the story that is told about them."""
