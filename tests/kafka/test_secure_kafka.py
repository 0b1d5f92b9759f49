"""A broker that is reached over TLS and asks for a password: the URL of the bus says all of it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.authority import Authority
from tests.kafka.real_kafka import HOST, RealKafka, Secure, require_or_skip
from tests.opening import opened

from rota.errors import BusAway
from rota.events.buses.base import Outgoing
from rota.events.buses.kafka import KafkaBus
from rota.testing.waiting import until

USER = "rota"
PASSWORD = "p@ss/w:rd"
TOPIC = "shop.order"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Generator[RealKafka]:
    require_or_skip()
    secure = Secure(USER, PASSWORD, authority.server_file(HOST))
    with RealKafka(tmp_path_factory.mktemp("kafka"), secure) as running:
        yield running


def url(broker: RealKafka, authority: Path, password: str = PASSWORD, protocol: str = "classic") -> str:
    who = f"{quote(USER, safe='')}:{quote(password, safe='')}"
    settings = f"security.protocol=SASL_SSL&sasl.mechanism=PLAIN&ssl.ca.location={authority}&group.protocol={protocol}"
    return f"kafka://{who}@{HOST}:{broker.secure_port}?{settings}"


def message(number: int) -> Outgoing:
    return Outgoing(str(number), TOPIC, 0, f"k{number}", {}, str(number).encode())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_events_travel_over_tls_with_a_password(broker: RealKafka, authority: Authority, protocol: str) -> None:
    async with opened(KafkaBus(url(broker, authority.file, protocol=protocol), partitions=2)) as bus:
        assert PASSWORD not in bus.name
        assert await bus.publish([message(number) for number in range(20)]) == [None] * 20
        reader = await bus.reader(f"mail-{protocol}", [TOPIC], instance="one")
        seen: set[str] = set()

        async def all_read() -> bool:
            messages = await reader.fetch(100, 0.5)
            seen.update(each.key for each in messages)
            await reader.commit({each.place: each.offset for each in messages})
            return len(seen) == 20

        await until(all_read, "all were read")
        assert await bus.lag(f"mail-{protocol}", [TOPIC]) == {TOPIC: 0}


async def test_a_wrong_password_is_said_to_be_wrong(broker: RealKafka, authority: Authority) -> None:
    async with opened(KafkaBus(url(broker, authority.file, "wrong"))) as bus:
        with pytest.raises(BusAway, match=r"(?i)authentication") as raised:
            await bus.publish([message(1)])
        assert "wrong" not in str(raised.value)
        with pytest.raises(BusAway, match="check the user and the password"):
            await bus.lag("mail", [TOPIC])
        reader = await bus.reader("mail", [TOPIC], instance="one")

        async def is_told() -> bool:
            try:
                await reader.fetch(1, 0.5)
            except BusAway as away:
                return "authentication" in str(away).lower()
            return False

        await until(is_told, "whoever reads is told, too")


async def test_a_broker_whom_nobody_vouches_for_is_not_trusted(broker: RealKafka, tmp_path: Path) -> None:
    stranger = Authority(tmp_path)
    async with opened(KafkaBus(url(broker, stranger.file))) as bus:
        with pytest.raises(BusAway, match=r"(?i)certificate"):
            await bus.publish([message(1)])
