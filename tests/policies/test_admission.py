"""Each admission policy worked by hand, then on the data of the paper they are from (kafka)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tocsin.policies import parse_policy

PUBLICATIONS = Path(__file__).parent / "data" / "cs237_test1000_1.csv"
SUBSCRIBERS = {"10001": 2, "00110": 1}  # kafka, Figure 4: S0 and S2; S1


def decisions(text: str, counts: list[int]) -> list[bool]:
    """What the policy answers to objects for so many subscribers, one after the other."""
    admit = parse_policy(f"admit={text} evict=lsc").admit.start().call
    return [admit(waiting) for waiting in counts]


def test_all_admits_and_none_refuses() -> None:
    assert decisions("all", [1, 5, 1]) == [True, True, True]
    assert decisions("none", [1, 5, 1000]) == [False, False, False]


def test_threshold_rises_with_what_it_admits_and_falls_with_what_it_refuses() -> None:
    # λ = 0.5, μ = 0.25.  n:          2  1  1    4     3     2    2
    #                     threshold:  0  1  1.5  1.25  3.25  2.5  2
    admitted = [True, True, False, True, False, False, True]
    assert decisions("threshold(0.5,0.25)", [2, 1, 1, 4, 3, 2, 2]) == admitted


def test_mean_asks_for_the_mean_of_the_last_full_batch() -> None:
    # Batches of 3. n:          1  2  6  3  2  1  2  1
    #               threshold:  0  0  0  3  3  3  2  2
    admitted = [True, True, True, True, False, False, True, False]
    assert decisions("mean(3)", [1, 2, 6, 3, 2, 1, 2, 1]) == admitted


def test_buffer_weighs_the_present_with_the_previous_one() -> None:
    # γ = 0.5, α = 1. n:          2          4          4          12
    #                 threshold:  1 = 1 + 0  4 = 2 + 2  6 = 2 + 4  10 = 6 + 4
    assert decisions("buffer(0.5,1)", [2, 4, 4, 12]) == [True, True, False, True]


@pytest.mark.parametrize("alpha", [0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9, 1.0])
def test_buffer_with_weights_that_add_to_one_admits_what_is_no_less_than_before(
    alpha: float,
) -> None:
    counts = [n + step for n in range(2, 200) for step in (0, 0, 1, -1)]
    expected = [now >= before for before, now in zip([0, *counts], counts, strict=False)]
    assert decisions(f"buffer({round(1 - alpha, 1)},{alpha})", counts) == expected


@pytest.mark.parametrize(
    ("text", "admitted"),
    [
        ("none", 0),
        ("threshold(0.3,0.2)", 309),
        ("mean(50)", 549),
        ("buffer(0.5,0.5)", 754),
        ("all", 1000),
    ],
)
def test_hit_rates_on_the_authors_data(text: str, admitted: int) -> None:
    """As in kafka, Figure 8 at 1,000 publications, which it rounds to .3, .5 and .7.

    A hit is a publication that is cached, n the number of its subscribers. The parameters are
    those of the authors' code (λ = 0.3, μ = 0.2, batches of 50); every γ + α = 1 with α > 0 gives
    the same buffer.
    """
    counts = [SUBSCRIBERS[line.split(",")[1]] for line in PUBLICATIONS.read_text().split()]
    assert len(counts) == 1000
    assert sum(decisions(text, counts)) == admitted


def test_copies_on_the_authors_data() -> None:
    """The paper prints a duplication factor of 1.7 for all; 527 of the 1,000 are shared: 1.53."""
    counts = [SUBSCRIBERS[line.split(",")[1]] for line in PUBLICATIONS.read_text().split()]
    assert sum(counts) / len(counts) == 1.527
