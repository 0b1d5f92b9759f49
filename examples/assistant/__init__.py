"""A chat back end whose users are remembered: Rota as a library inside a FastAPI application."""
