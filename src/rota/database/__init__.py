"""The SQL database: connections and threads, the tables, the way from an older schema to this one.

The SQL store lives in it. What has no place in a store (access tokens, the audit log, alerts, memory) has its rows in
it whatever the store is.
"""

from rota.database.database import Conflict, Database

__all__ = ["Conflict", "Database"]
