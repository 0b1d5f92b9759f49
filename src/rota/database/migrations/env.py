"""Alembic's entry: migrations run on the connection that `schema.prepare` hands over, and count in the table that it
names; the tests make databases of older versions, which counted in another."""

from alembic import context

from rota.database.tables import metadata

given = context.config.attributes
context.configure(
    connection=given["connection"],
    version_table=given["version_table"],
    target_metadata=metadata,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
