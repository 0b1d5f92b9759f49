"""Every table of Rota. One definition for SQLite and PostgreSQL; `migrations/` brings an older database here."""

from rota.database.tables import access, agents, alerts, batches, events, failures, leases, memory, tasks
from rota.database.tables.base import metadata

__all__ = ["access", "agents", "alerts", "batches", "events", "failures", "leases", "memory", "metadata", "tasks"]
