"""An application's own Rota: the host that owns its parts, and the faces in Python over it."""
