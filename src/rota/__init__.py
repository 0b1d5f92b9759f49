"""Rota: the background scheduler for AI applications."""
