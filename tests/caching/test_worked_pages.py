"""Page caches, worked by hand: one story for each policy and each rule of the delivery paper.

`push a 2 s3`: page a of 2 bytes is published, 3 subscriptions match. `note` and `browse` are
requests, `new a`: a newer version of a's story exists, `again a`: a is the newest once more. Costs
are 1 and β = 1 if nothing is said.
"""

from __future__ import annotations

import pytest

from caching.pages_told import cache_of, check, play
from tocsin.caching.page_cache import PageCache
from tocsin.policies.page import parse_page_policy
from tocsin.policies.page.learned_demand import Knowledge


def test_gdstar_evicts_the_smallest_value_and_ages() -> None:
    check(
        "gdstar",
        8,
        """
        push a 4 s9   -> none                # access-based: nothing is pushed
        browse a 4    -> miss-stored         # V(a) = 0 + 1/4
        browse b 2    -> miss-stored         # V(b) = 1/2
        browse a 4    -> hit                 # V(a) = 2/4
        browse c 1    -> miss-stored         # V(c) = 1
        browse d 4    -> miss-stored b a     # 1/2 each: b's was set longer ago; L = 1/2, V(d) = 3/4
        browse a 4    -> miss-stored d       # f is forgotten: L = 3/4, V(a) = 1
        browse e 4    -> miss-stored c       # 1 each: c's was set longer ago. L = 1, V(e) = 5/4
        """,
    )


def test_gdstar_takes_the_new_age_for_the_new_page() -> None:
    check(
        "gdstar",
        2,
        """
        browse a 1    -> miss-stored         # V = 1
        browse b 1    -> miss-stored         # V = 1
        browse b 1    -> hit                 # V = 2
        browse b 1    -> hit                 # V = 3
        browse c 1    -> miss-stored a       # L = 1, V(c) = 2
        browse c 1    -> hit                 # V(c) = 1 + 2 = 3, set after b's
        browse d 1    -> miss-stored b       # L = 3, V(d) = 4; an old L would make it 2
        browse e 1    -> miss-stored c       # 3 < 4
        """,
    )


def test_gdstar_does_not_evict_for_a_page_that_can_never_fit() -> None:
    check(
        "gdstar",
        4,
        """
        browse a 4    -> miss-stored
        browse b 5    -> miss-not-stored
        browse a 4    -> hit
        """,
    )


@pytest.mark.parametrize(("policy", "leaves"), [("gdstar(1)", "c"), ("gdstar(2)", "a")])
def test_beta_weighs_popularity_against_recency(policy: str, leaves: str) -> None:
    check(
        policy,
        2,
        f"""
        browse a 1    -> miss-stored
        browse a 1    -> hit
        browse a 1    -> hit
        browse a 1    -> hit                 # V(a) = 4, or √4 = 2
        browse b 1    -> miss-stored         # V(b) = 1
        browse c 1    -> miss-stored b       # L = 1, V(c) = 2
        browse d 1    -> miss-stored {leaves}       # of equal values, a's was set longer ago
        """,
    )


def test_gdsf_is_gdstar_with_beta_1() -> None:
    check(
        "gdsf",
        4,
        """
        push a 2 s9   -> none
        browse a 2    -> miss-stored         # 1/2
        note a 2      -> hit                 # 1
        browse b 2    -> miss-stored         # 1/2
        browse c 2    -> miss-stored b       # L = 1/2, V(c) = 1, set after a's
        browse d 2    -> miss-stored a
        """,
    )


def test_lru_looks_at_neither_size_nor_frequency() -> None:
    check(
        "lru",
        4,
        """
        push a 1 s9   -> none
        browse a 1    -> miss-stored
        browse b 3    -> miss-stored
        browse b 3    -> hit
        note a 1      -> hit
        browse c 2    -> miss-stored b
        browse d 2    -> miss-stored a
        browse e 4    -> miss-stored c d
        """,
    )


def test_none_stores_nothing() -> None:
    check(
        "none",
        100,
        """
        push a 1 s9   -> none
        note a 1      -> miss-not-stored
        note a 1      -> miss-not-stored
        """,
    )


def test_sg1_adds_accesses_to_subscriptions() -> None:
    check(
        "sg1",
        4,
        """
        push a 2 s0   -> none                # nobody's subscription matched
        push a 2 s1   -> stored              # 1/2
        push b 2 s2   -> stored              # 2/2
        browse a 2    -> hit                 # (1 + 1)/2 = 1
        push c 2 s2   -> aborted             # 2/2: none is strictly below
        push d 2 s3   -> stored b            # 3/2; of 1 and 1 b's is older. L = 1, V = 5/2
        push e 2 s1   -> stored a            # threshold 1 + 1/2; L = 1, V(e) = 3/2
        """,
    )


def test_an_aborted_miss_still_counts_the_access() -> None:
    check(
        "sg1",
        2,
        """
        push a 2 s3   -> stored              # 3/2
        browse b 2    -> miss-not-stored     # 1/2
        browse b 2    -> miss-not-stored     # 2/2
        browse b 2    -> miss-not-stored     # 3/2 is not strictly above 3/2
        browse b 2    -> miss-stored a       # 4/2
        """,
    )


def test_counters_survive_eviction() -> None:
    check(
        "sg1",
        2,
        """
        push a 2 s1   -> stored              # 1/2
        browse a 2    -> hit                 # 2/2
        push b 2 s3   -> stored a            # 3/2 > 1; L = 1, V(b) = 5/2
        browse a 2    -> miss-not-stored     # 1 + (1 + 2)/2 = 5/2: not strictly above
        browse a 2    -> miss-stored b       # 1 + (1 + 3)/2 = 3
        """,
    )


def test_sg2_subtracts_accesses_also_below_zero() -> None:
    check(
        "sg2",
        2,
        """
        push a 1 s1   -> stored              # 1
        note a 1      -> hit                 # 0
        browse b 1    -> miss-stored         # 0 − 1 = −1, there is room
        browse c 1    -> miss-not-stored     # −1 is not above −1
        push d 1 s1   -> stored b            # 1; L = −1, V(d) = −1 + 1 = 0
        browse a 1    -> hit                 # L + (1 − 2) = −2
        push e 1 s1   -> stored a            # −1 + 1 = 0 > −2; L = −2, V(e) = −1
        push f 1 s1   -> aborted             # −2 + 1 = −1: e's −1 is not below, d's 0 neither
        """,
    )


def test_rsg2_is_never_below_recency() -> None:
    check(
        "rsg2",
        2,
        """
        push a 1 s1   -> stored              # 1
        note a 1      -> hit                 # 0
        browse b 1    -> miss-stored         # 0
        push d 1 s1   -> stored a            # 1 > 0, a's was set longer ago; L = 0
        browse c 1    -> miss-not-stored     # 0: not above b's 0
        browse b 1    -> hit                 # 0
        push e 1 s1   -> stored b            # 1; L = 0
        push f 1 s1   -> aborted
        """,
    )


def test_hug_tells_notified_accesses_from_browsing() -> None:
    check(
        "hug",
        2,
        """
        push a 1 s2   -> stored              # 0 + 2
        push b 1 s2   -> stored              # 0 + 2
        note a 1      -> hit                 # 0 + 1
        browse b 1    -> hit                 # 1 + 2
        push c 1 s2   -> stored a            # 2 > 1; L = 1, V(c) = 3
        note a 1      -> miss-not-stored     # L + max(0, 2 − 2) = 1
        note a 1      -> miss-not-stored     # never below 0: 1
        browse a 1    -> miss-not-stored     # 1 + 1 = 2
        browse a 1    -> miss-not-stored     # 1 + 2 = 3: not strictly above
        browse a 1    -> miss-stored b       # 4; b's 3 was set longer ago than c's; L = 3
        """,
    )


def test_abort_looks_at_all_candidates_together_and_changes_nothing() -> None:
    check(
        "sg1",
        6,
        """
        push a 2 s1   -> stored              # 0.5
        push b 2 s2   -> stored              # 1
        push c 2 s8   -> stored              # 4
        push d 6 s12  -> aborted             # 2: a and b are below, but 4 < 6 bytes
        push e 5 s10  -> aborted             # 4 < 5 bytes
        push f 4 s8   -> stored a b          # 2: 4 bytes
        note c 2      -> hit
        """,
    )


def test_only_as_many_leave_as_are_needed() -> None:
    check(
        "sg1",
        6,
        """
        push a 2 s1   -> stored              # 0.5
        push b 2 s2   -> stored              # 1
        push c 2 s3   -> stored              # 1.5
        push d 3 s30  -> stored a b          # L = 1, V(d) = 11
        push e 1 s1   -> stored              # into free bytes; V = 1 + 1
        push f 1 s1   -> stored c            # 2 > 1.5
        """,
    )


def test_dc_pushes_by_subscriptions_without_age() -> None:
    cache = check(
        "dc",
        8,
        """
        push a 2 s0   -> none
        push a 2 s1   -> stored              # 0.5, in 4 bytes
        push b 2 s3   -> stored              # 1.5
        push c 2 s1   -> aborted             # 0.5: none is below, and nothing is stale
        push d 2 s2   -> stored a:push       # 1 > 0.5
        push e 2 s2   -> aborted             # 1 is not above 1
        push e 2 s3   -> stored d:push       # 1.5 > 1; with an L of 0.5 b's 1.5 would leave
        """,
    )
    assert cache.portions == {"push": (4, 4), "access": (0, 4)}


def test_dc_serves_misses_by_gdstar_in_its_access_portion() -> None:
    check(
        "dc",
        8,
        """
        browse a 2    -> miss-stored         # 1/2
        note b 2      -> miss-stored         # 1/2
        note a 2      -> hit                 # 1
        browse c 2    -> miss-stored b:access   # L = 1/2, V(c) = 1; the push portion is no room
        browse d 5    -> miss-not-stored     # larger than the portion
        browse d 4    -> miss-stored a:access c:access
        """,
    )


def test_dc_moves_a_pushed_page_and_its_bytes_when_it_is_asked_for() -> None:
    cache = check(
        "dc",
        8,
        """
        browse x 4    -> miss-stored         # fills the access portion
        push a 2 s4   -> stored
        note a 2      -> hit                 # no eviction: its 2 bytes come along
        """,
    )
    assert cache.portions == {"push": (0, 2), "access": (6, 6)}
    assert cache.portion_of("a") == "access"


def test_dc_moved_page_begins_with_one_access_and_the_portions_age() -> None:
    check(
        "dc",
        8,
        """
        browse x 4    -> miss-stored         # 1/4
        browse y 4    -> miss-stored x:access   # L = 1/4, V(y) = 1/2
        push a 2 s9   -> stored              # 4.5 in the push portion
        note a 2      -> hit                 # 1/4 + 1/2 = 3/4
        note y 4      -> hit                 # 1/4 + 2/4 = 3/4, set after a's
        browse z 2    -> miss-stored a:access
        """,
    )


def test_dc_bound_forbids_a_move_and_gdstar_places_the_page() -> None:
    cache = check(
        "dc",
        8,
        """
        push a 2 s4   -> stored
        browse a 2    -> hit                 # push 2, access 6: the bound
        browse x 4    -> miss-stored         # access is full
        push b 2 s4   -> stored
        browse b 2    -> hit x:access        # no bytes come along: x's 1/4 leaves, not a's 1/2
        """,
    )
    assert cache.portions == {"push": (0, 2), "access": (4, 6)}


def test_dc_page_larger_than_the_access_portion_stays_where_it_is() -> None:
    cache = check(
        "dc",
        16,
        """
        browse x 4    -> miss-stored
        browse y 8    -> miss-stored x:access   # everything but y is stale
        browse z 4    -> miss-stored y:access
        browse w 4    -> miss-stored         # access 8: z 1/8 + 1/4, w 3/8
        browse v 4    -> miss-stored z:access   # w is stale
        push a 12 s99 -> stored w:access     # takes 4 bytes: push 12, access 4
        note a 12     -> hit                 # 12 bytes cannot come along, nor be placed in 4
        note a 12     -> hit
        """,
    )
    assert cache.portion_of("a") == "push"
    assert cache.portions == {"push": (12, 12), "access": (4, 4)}


def test_dc_takes_the_bytes_of_stale_pages_when_a_push_fails() -> None:
    cache = check(
        "dc",
        16,
        """
        browse a 4    -> miss-stored         # 1/4
        browse b 2    -> miss-stored         # 1/2
        browse c 2    -> miss-stored         # 1/2
        push p 8 s8   -> stored              # 1; push is full
        push q 2 s2   -> aborted             # 1 is not above 1; nothing is stale yet
        browse d 4    -> miss-stored a:access   # L = 1/4, V(d) = 1/2. b and c are stale now
        note b 2      -> hit                 # 1/4 + 1: b is not stale any more
        push q 2 s2   -> stored c:access     # c's 2 bytes
        push r 2 s2   -> aborted             # d and b were asked for since
        """,
    )
    assert cache.portions == {"push": (10, 10), "access": (6, 6)}


def test_dc_takes_only_what_is_needed_besides_what_is_worth_less() -> None:
    check(
        "dc",
        16,
        """
        push p 4 s2   -> stored              # 0.5
        push q 4 s8   -> stored              # 2
        browse a 2    -> miss-stored         # 1/2
        browse b 2    -> miss-stored         # 1/2
        browse c 4    -> miss-stored         # 1/4
        browse d 2    -> miss-stored c:access   # a and b are stale; 2 bytes are free
        push r 6 s6   -> stored a:access p:push   # 1: p's 4 bytes and a's 2 are enough
        """,
    )


def test_dc_takes_stale_pages_within_the_bound_only() -> None:
    cache = check(
        "dc",
        16,
        """
        push p 8 s80  -> stored
        browse a 4    -> miss-stored         # 1/4
        browse b 4    -> miss-stored         # 1/4
        browse c 4    -> miss-stored a:access   # b is stale
        push q 4 s4   -> stored b:access     # push 12, access 4: the bound
        browse d 4    -> miss-stored c:access
        browse e 2    -> miss-stored d:access   # nothing is left that is stale, 2 bytes free
        browse f 2    -> miss-stored
        browse g 2    -> miss-stored e:access   # f is stale
        push r 2 s1   -> aborted             # f's 2 bytes may not leave: 25 % stay
        """,
    )
    assert cache.portions == {"push": (12, 12), "access": (4, 4)}


def test_dc_passes_over_a_stale_page_that_would_exceed_the_bound() -> None:
    check(
        "dc",
        16,
        """
        push p 8 s80  -> stored
        browse a 5    -> miss-stored
        browse a 5    -> hit
        browse a 5    -> hit
        browse a 5    -> hit
        browse a 5    -> hit
        browse a 5    -> hit                 # 6/5
        browse b 2    -> miss-stored
        browse b 2    -> hit
        browse b 2    -> hit                 # 3/2
        browse x 1    -> miss-stored         # 1
        browse y 1    -> miss-stored x:access   # L = 1, V(y) = 2; a and b are stale
        push q 5 s5   -> aborted             # only 4 bytes may leave: 25 % stay
        push q 2 s2   -> stored b:access     # a's 5 bytes would be too many
        """,
    )


def test_dc_ta_gives_each_type_of_access_a_portion_with_an_age_of_its_own() -> None:
    cache = check(
        "dc-ta",
        8,
        """
        push a 4 s4   -> stored              # notified: 1
        note b 4      -> miss-not-stored     # 0: not above 1
        push c 4 s8   -> stored a:notified   # 2 > 1; L = 1, V(c) = 3
        browse d 4    -> miss-stored         # browsed: its L is 0, V(d) = 1/4
        browse e 2    -> miss-stored d:browsed   # its L = 1/4, V(e) = 3/4
        push f 4 s8   -> aborted             # 1 + 2 = 3: not above c's 3; with an L of 1/4 neither
        push f 4 s9   -> stored c:notified   # 1 + 9/4 > 3
        """,
    )
    assert cache.portions == {"notified": (4, 4), "browsed": (2, 4)}


def test_dc_ta_portions_only_read_each_other() -> None:
    check(
        "dc-ta",
        8,
        """
        push a 2 s2   -> stored              # notified: 1
        push b 2 s2   -> stored              # notified: 1
        browse a 2    -> hit                 # found there, but not valued anew
        push c 2 s3   -> stored a:notified   # a's value was set longer ago
        browse d 2    -> miss-stored         # browsed: 1/2
        browse e 2    -> miss-stored         # browsed: 1/2
        note d 2      -> hit                 # not valued anew
        browse f 2    -> miss-stored d:browsed
        """,
    )


def test_dc_ta_notified_accesses_use_up_subscriptions_wherever_the_page_is() -> None:
    check(
        "dc-ta",
        4,
        """
        browse a 2    -> miss-stored         # browsed
        note a 2      -> hit                 # a_S = 1
        browse b 2    -> miss-stored a:browsed
        push c 2 s2   -> stored              # notified: 1
        push a 2 s3   -> aborted             # (3 − 1)/2 = 1: not above 1
        push a 2 s4   -> stored c:notified   # (4 − 1)/2
        """,
    )


@pytest.mark.parametrize(
    ("policy", "notified", "browsed"),
    [
        ("dc-ta(0)", "miss-not-stored", "miss-stored"),
        ("dc-ta(1)", "miss-stored", "miss-not-stored"),
        ("dc-ta(0.25)", "miss-not-stored", "miss-stored"),
        ("dc-ta(0.75)", "miss-stored", "miss-not-stored"),
    ],
)
def test_dc_ta_share_is_what_is_written(policy: str, notified: str, browsed: str) -> None:
    check(policy, 8, f"note a 5 -> {notified}\nbrowse b 5 -> {browsed}")


@pytest.mark.parametrize("policy", ["gdstar", "sg1", "sg2", "rsg2", "hug", "gdsf", "lru"])
def test_superseded_pages_leave_first_without_a_trace_in_the_age(policy: str) -> None:
    check(
        policy,
        4,
        """
        push a 2 s9   -> none
        browse a 2    -> miss-stored
        browse b 1    -> miss-stored
        browse c 1    -> miss-stored
        note a 2      -> hit
        new a         -> none
        note a 2      -> hit                 # it is still there, and worth no more
        browse d 1    -> miss-stored a
        note a 2      -> miss-not-stored     # never stored again
        push a 2 s9   -> none
        browse e 1    -> miss-stored         # 1 byte was free
        browse f 1    -> miss-stored b       # the oldest value, not d's: L is still 0
        """
        if policy in ("gdstar", "gdsf", "lru")
        else """
        push a 2 s9   -> stored
        push b 1 s1   -> stored
        push c 1 s1   -> stored
        new a         -> none
        note a 2      -> hit                 # it is still there, and worth no more
        push d 1 s1   -> stored a            # worth no more than b and c: an age would show
        note a 2      -> miss-not-stored     # never stored again
        push a 2 s9   -> none
        push e 1 s1   -> stored              # 1 byte was free
        push f 1 s1   -> aborted             # L is still 0: all are worth 1
        push f 1 s2   -> stored b
        """,
    )


def test_superseded_pages_are_stale_in_dc_and_stay_where_they_are() -> None:
    cache = check(
        "dc",
        8,
        """
        push p 4 s8   -> stored
        browse a 2    -> miss-stored
        browse b 2    -> miss-stored
        push q 2 s1   -> aborted
        new b         -> none
        push q 2 s1   -> stored b:access     # its bytes are free to go
        new p         -> none
        note p 4      -> hit
        """,
    )
    assert cache.portion_of("p") == "push"


def test_a_page_that_is_the_newest_again_is_worth_what_it_would_be() -> None:
    check(
        "sg1",
        3,
        """
        push a 1 s2   -> stored              # 2
        push b 1 s1   -> stored              # 1
        push c 1 s1   -> stored              # 1
        new a         -> none
        new b         -> none
        again a       -> none                # 2
        push d 1 s1   -> stored b            # a stays; no L, b left without a trace
        push b 1 s9   -> none                # still superseded
        again b       -> none
        push b 1 s9   -> stored c            # L = 1, V(b) = 10
        new a         -> none
        again a       -> none                # 1 + 2
        push e 1 s2   -> stored d            # 1 + 2; L stays 1
        push f 1 s2   -> aborted             # a is worth as much
        """,
    )


def test_a_page_published_again_is_worth_what_is_said_last() -> None:
    check(
        "sg1",
        2,
        """
        push a 1 s1   -> stored              # 1
        push b 1 s1   -> stored              # 1
        push a 1 s2   -> none                # 2: it is there already
        push a 1 s2   -> none                # still 2: repeats do no harm
        push c 1 s2   -> stored b            # L = 1, V(c) = 3
        push d 1 s1   -> aborted             # 2 is not above a's 2
        """,
    )


def known_to(cache: PageCache[str]) -> Knowledge:
    assert cache._observer is not None
    assert isinstance(cache._observer.state, Knowledge)
    return cache._observer.state


def test_learned_demand_begins_by_trusting_subscriptions_and_browsing_alike() -> None:
    """Before its first look, a subscription stands for a reader and for one who browses, and those
    who browsed make more of these likely: f = max(0, s − a_S) + s·(1 + a_NS)."""
    check(
        "learned-demand",
        4,
        """
        push a 2 s3     -> stored            # V = (3 + 3)/2
        push b 2 s1     -> stored            # V = (1 + 1)/2
        push c 2 s2     -> stored b          # V = (2 + 2)/2; no L
        note c 2        -> hit               # V = (1 + 2)/2
        push d 2 s1     -> aborted           # V = 1
        browse d 2      -> miss-not-stored   # V = (1 + 2)/2, not more than c's
        browse d 2      -> miss-stored c     # V = (1 + 3)/2
        push e 2 s0     -> none
        new a           -> none
        push f 2 s1     -> stored a          # what is superseded is worth nothing
        """,
    )


def test_learned_demand_learns_who_never_comes() -> None:
    """Ten pages of ten subscriptions each that nobody opens; and one of one, which somebody does.
    After some looks a new page of ten is worth less than the one that is opened again and again."""
    story = "push small 1 s1\n"
    for number in range(12):
        story += f"push large{number} 1 s10\n" + "browse small 1\n" * 20
    cache = cache_of("learned-demand", 1)
    outcomes = play(cache, story)
    assert outcomes[1] == "stored small"
    assert outcomes[-21] == "aborted"
    assert "small" in cache


@pytest.mark.parametrize("between", ["hug", "dc", "gdstar"])
def test_learned_demand_goes_on_learning_under_another_policy(between: str) -> None:
    cache = cache_of("learned-demand", 2)
    play(cache, "push a 1 s2\nnote a 1\nbrowse a 1")
    cache.set_policy(parse_page_policy(between), 1)
    play(cache, "note a 1\nbrowse b 1")
    cache.set_policy(parse_page_policy("learned-demand"))
    play(cache, "browse a 1\nbrowse b 1")
    known = known_to(cache)
    assert known.asked.sum() == 6
    assert known.there.sum() == 2 + 1  # a's subscriptions, and b without any


def test_learned_demand_knows_how_old_pages_are_that_came_before_it() -> None:
    cache = cache_of("hug", 2)
    play(cache, "push a 1 s1\n" + "browse a 1\n" * 20 + "browse b 1\n" * 20)
    cache.set_policy(parse_page_policy("learned-demand"))
    assert cache._known["a"].age > cache._known["b"].age > 0
    assert cache.request("a", 1, True).outcome == "hit"


def test_learned_demand_forgets_a_page_that_is_removed() -> None:
    cache = cache_of("learned-demand", 4)
    play(cache, "push a 1 s3\npush b 1 s2")
    cache.remove("a")
    cache.remove("a")
    play(cache, "browse b 1\n" * 100)
    known = known_to(cache)
    assert known.there.sum() == 2  # b's subscriptions
    assert known.there.min() == 0
