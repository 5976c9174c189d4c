"""Stores on servers that speak TLS: who proves to be another is not given the password."""

from __future__ import annotations

from pathlib import Path

import pytest

from real_servers import RealServers
from secured import Certificate, SecuredMariaDB, SecuredPostgreSQL
from tocsin.errors import SettingError
from tocsin.storage.store.store import Store


@pytest.mark.parametrize("kind", [SecuredPostgreSQL, SecuredMariaDB])
def test_a_store_is_opened_over_tls_only_if_the_server_is_the_trusted_one(
    real_servers: RealServers, tmp_path: Path, kind: type[SecuredPostgreSQL | SecuredMariaDB]
) -> None:
    server = real_servers.start(kind)
    address = server.fresh()
    with Store.open(address) as store:
        store.catalog.put_broker("north", "http://north")
    stranger = Certificate(tmp_path).file
    with pytest.raises(SettingError, match="certificate") as told:
        Store.open(address.replace(str(server.ca), str(stranger)))
    assert told.value.field == "store"
    assert server.password not in str(told.value)
