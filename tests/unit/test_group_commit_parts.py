"""What one caller brings is split into groups within the limits, in items and in bytes."""

from __future__ import annotations

import pytest

from rota.group_commit import MAX_GROUP, MAX_GROUP_BYTES, GroupCommit


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ([1] * 3, [3]),
        ([1] * (2 * MAX_GROUP + 5), [MAX_GROUP, MAX_GROUP, 5]),
        ([MAX_GROUP_BYTES // 2] * 5, [2, 2, 1]),
        ([10, 2 * MAX_GROUP_BYTES, 10], [1, 1, 1]),
    ],
)
async def test_groups_keep_their_limits(sizes: list[int], groups: list[int]) -> None:
    written: list[list[int]] = []

    async def write(items: list[int]) -> list[int]:
        written.append(items)
        return items

    commit: GroupCommit[int, int] = GroupCommit(write, lambda size: size)
    assert await commit.submit(sizes) == sizes
    assert [len(group) for group in written] == groups
    await commit.drain()
