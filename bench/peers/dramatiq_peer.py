"""dramatiq: 8 threads, as it comes."""

from __future__ import annotations

import threading
import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.peers.measured import LIMIT, arguments, report

url, count = arguments()
broker = RedisBroker(url=url)
dramatiq.set_broker(broker)
left = threading.Semaphore(0)


@dramatiq.actor
def noop() -> None:
    left.release()


started = time.perf_counter()
for _ in range(count):
    noop.send()
enqueue = count / (time.perf_counter() - started)
worker = dramatiq.Worker(broker, worker_threads=8)
started = time.perf_counter()
worker.start()
for _ in range(count):
    assert left.acquire(timeout=LIMIT), "dramatiq did not finish in time"
run = count / (time.perf_counter() - started)
report(enqueue, run)
worker.stop()
