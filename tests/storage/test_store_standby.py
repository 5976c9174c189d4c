"""A standby waits for the leader of its store, knows whom it waits for, and takes the store when it
is given back, or when its leader is lost."""

from __future__ import annotations

import signal
import time
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tocsin.storage.store.standby import Standby
from tocsin.storage.store.store import Store

from .conftest import DatabaseServer, until
from .test_store_lease import BOUND_S, writer_process

LEADER = "http://leader:7400"


def waiting(url: str, standby: Standby) -> Future[Store]:
    pool = ThreadPoolExecutor(1)
    future = pool.submit(Store.open, url, busy_timeout_s=0.5, lease_s=2.0, standby=standby)
    pool.shutdown(wait=False)
    return future


def test_a_standby_waits_beyond_the_patience_of_others_and_leads_when_the_store_is_given_back(
    server: DatabaseServer,
) -> None:
    url, standby = server.fresh(), Standby()
    leading = Store.open(url, lease_s=2.0, address=LEADER)
    opening = waiting(url, standby)
    until(lambda: standby.leader is not None)
    time.sleep(1.5)  # longer than a newcomer that is no standby waits
    assert not opening.done()
    leader = standby.leader
    assert leader is not None
    assert leader.address == LEADER
    assert "process" in leader.process
    assert leader.silent_s < 1.5
    number = leading.lease.number
    leading.close()
    began = time.monotonic()
    with opening.result(30) as store:
        assert time.monotonic() - began < 1.5
        assert store.lease.number == number + 1
        assert store.lease.held


@pytest.mark.processes
@pytest.mark.timeout(120)
def test_a_standby_sees_how_long_its_leader_is_silent_and_takes_its_place(
    server: DatabaseServer,
) -> None:
    url, standby = server.fresh(), Standby()
    with writer_process(url) as leader:
        opening = waiting(url, standby)
        until(lambda: standby.leader is not None)
        leader.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        until(lambda: standby.leader is not None and standby.leader.silent_s > 3.0)
        assert not opening.done()  # not before the lease has lapsed
        with opening.result(30) as store:
            assert time.monotonic() - began < BOUND_S
            leader.send_signal(signal.SIGCONT)
            assert leader.wait(60) == 2
            store.catalog.put_broker("north", "http://north")
