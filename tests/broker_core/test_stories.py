"""Which page is the newest version of a story, whatever the order in which that is heard."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin.broker.machine.pages.stories import Stories

TOLD = st.lists(
    st.tuples(st.sampled_from("st"), st.sampled_from("abcd"), st.integers(0, 5)), max_size=30
)


def test_a_newer_version_makes_the_older_one_uninteresting() -> None:
    stories = Stories(10)
    assert stories.tell("s", "a", 1) is None
    assert stories.tell("s", "a", 2) is None  # the same bytes once more
    assert stories.tell("s", "b", 3) == "a"


def test_an_older_version_that_is_heard_of_late_is_the_uninteresting_one() -> None:
    stories = Stories(10)
    stories.tell("s", "new", 2)
    assert stories.tell("s", "old", 1) == "old"
    assert stories.tell("s", "newest", 3) == "new"


def test_a_page_that_another_story_shows_stays_interesting() -> None:
    stories = Stories(10)
    stories.tell("s", "a", 1)
    stories.tell("t", "a", 1)
    assert stories.tell("s", "b", 2) is None
    assert stories.tell("t", "b", 2) == "a"


def test_a_story_may_return_to_an_earlier_page() -> None:
    stories = Stories(10)
    stories.tell("s", "a", 1)
    assert stories.tell("s", "b", 2) == "a"
    assert stories.tell("s", "a", 3) == "b"


@given(TOLD)
def test_uninteresting_is_what_is_no_storys_newest(told: list[tuple[str, str, int]]) -> None:
    stories, newest, outdated = Stories(10), dict[str, tuple[int, str]](), set[str]()
    seen = set[str]()
    for story, page, made_at in told:
        seen.add(page)
        said = stories.tell(story, page, made_at)
        if made_at >= newest.get(story, (0, ""))[0]:
            newest[story] = made_at, page
            outdated.discard(page)
        outdated |= {said} if said else set()
        shown = {page for _, page in newest.values()}
        assert outdated == seen - shown


@given(TOLD)
def test_little_is_remembered(told: list[tuple[str, str, int]]) -> None:
    stories = Stories(1)
    for story, page, made_at in told:
        stories.tell(story, page, made_at)
        assert len(stories._newest) <= 1
        assert sum(stories._of.values()) == len(stories._newest)
