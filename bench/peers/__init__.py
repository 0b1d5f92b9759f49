"""Other queues, doing the same work as Rota.

Each `NAME_peer.py` is a program that imports no Rota: `python -m bench.peers.NAME_peer CASE URL COUNT` prints one line
of JSON. It says how its queue enqueues and how its worker lives (`peer`); what is measured is the same for all of them
(`measured`). They live in environments of their own, because their pins exclude each other's and ours.
"""
