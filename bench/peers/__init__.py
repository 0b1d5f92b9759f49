"""Other queues, doing the same: enqueue keyed no-op jobs, then run them all, in one process.

Each file is a program that imports no Rota and prints one line of JSON. They live in an environment of their own
(`requirements.txt`), because their pins of redis-py exclude each other's and ours.
"""
