"""The suite that every store passes.

One module per verb or rule, each with classes of tests that take two fixtures: `store`, an open and empty store on a
`FakeClock`, and `clock`, that clock. To try a store, provide the fixtures and import the classes:

    @pytest.fixture
    async def store(clock): ...

    from rota.testing.conformance.claim import TestClaim

A new rule goes here first, for all stores.
"""
