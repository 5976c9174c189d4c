"""Names of the client that are imported when they are first asked for."""

from __future__ import annotations

from tocsin.client import logged_results


def test_consumer_log_is_the_function_however_often_it_is_imported() -> None:
    for _ in range(2):
        from tocsin.client import consumer_log

        assert consumer_log is logged_results.consumer_log
