"""A token is shown to the cluster before its first answer, and from time to time again."""

from __future__ import annotations

from tocsin.broker.server.admitted import Admitted


def test_a_token_has_what_the_cluster_allowed_it_and_no_other_has() -> None:
    admitted = Admitted(lasts_s=30.0)
    assert not admitted.holds("strong", 1, 0.0)
    admitted.attached("strong", [1, 2], 0.0)
    admitted.attached("weak", [2], 0.0)
    assert admitted.holds("strong", 1, 1.0)
    assert not admitted.holds("weak", 1, 1.0)
    admitted.subscribed("weak", 3, 1.0)
    assert admitted.holds("weak", 3, 1.0)
    assert not admitted.holds("strong", 3, 1.0)
    admitted.attached("strong", [2], 2.0)
    assert not admitted.holds("strong", 1, 3.0)


def test_what_was_allowed_a_while_ago_is_asked_again() -> None:
    admitted = Admitted(lasts_s=30.0)
    admitted.attached("ann", [1], 0.0)
    admitted.subscribed("ann", 2, 29.0)
    assert admitted.holds("ann", 1, 30.0)
    assert not admitted.holds("ann", 1, 31.0)
    assert not admitted.holds("ann", 2, 31.0)


def test_the_least_used_tokens_are_forgotten() -> None:
    admitted = Admitted(most_tokens=2)
    for token in ("a", "b"):
        admitted.attached(token, [1], 0.0)
    assert admitted.holds("a", 1, 0.0)
    admitted.subscribed("c", 1, 0.0)
    assert [admitted.holds(token, 1, 0.0) for token in "abc"] == [True, False, True]
