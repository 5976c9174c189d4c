"""Offers: the bits of a vocabulary, who is matched, the paper's setting, a crowd's long tail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lab.admission.made import made
from tocsin.errors import SettingError
from tocsin.lab.workloads.offers import (
    CrowdSettings,
    Offers,
    PaperSettings,
    crowd_offers,
    paper_offers,
)
from tocsin.lab.workloads.offers.crowd import crowd_subscriptions
from tocsin.lab.workloads.offers.matching import match
from tocsin.lab.workloads.offers.vocabulary import OPEN, Vocabulary

SMALL = CrowdSettings(records=3_000, consumers=400)


def test_bitmaps_are_those_of_the_papers_figure_2() -> None:
    paper = Vocabulary()
    assert paper.bits == 5
    assert paper.values("10001") == (1, 0, 1)
    assert paper.values("00110") == (0, 1, 2)
    assert paper.bitmap((1, 0, 1)) == "10001"
    assert paper.values("1**01", may_be_open=True) == (1, OPEN, 1)
    assert paper.bitmap((1, OPEN, 1)) == "1**01"


@pytest.mark.parametrize(
    ("bitmap", "told"),
    [
        ("1000", "4 bits, not 5"),
        ("100012", "6 bits"),
        ("1x001", "the food"),
        ("00111", "the discount in '00111' is 3: there are 3"),
        ("1*001", "whole attribute"),
    ],
)
def test_wrong_bitmap_is_told_by_attribute(bitmap: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Vocabulary().values(bitmap, may_be_open=True)


def test_stars_are_no_offer() -> None:
    with pytest.raises(ValueError, match="the food"):
        Vocabulary().values("1**01")


COUNTS = (3, 2, 4)
VALUES = st.tuples(*(st.integers(0, count - 1) for count in COUNTS))
WANTED = st.tuples(*(st.integers(OPEN, count - 1) for count in COUNTS))


@given(
    st.lists(VALUES, min_size=1, max_size=10),
    st.lists(st.tuples(st.integers(0, 4), WANTED), max_size=12),
)
def test_matching_finds_whom_a_look_at_each_pair_finds(
    contents: list[tuple[int, int, int]], subscriptions: list[tuple[int, tuple[int, int, int]]]
) -> None:
    first, consumer = match(
        Vocabulary(*COUNTS),
        np.array(contents, np.int32),
        np.array([who for who, _ in subscriptions], np.int32),
        np.array([wanted for _, wanted in subscriptions], np.int32).reshape(-1, 3),
    )
    for number, content in enumerate(contents):
        expected = {
            who
            for who, wanted in subscriptions
            if all(want in (OPEN, value) for want, value in zip(wanted, content, strict=True))
        }
        assert consumer[first[number] : first[number + 1]].tolist() == sorted(expected)


def test_paper_has_three_consumers_of_two_contents() -> None:
    workload = paper_offers(PaperSettings(records=5_000), seed=1).check()
    assert (len(workload), workload.consumers) == (5_000, 3)
    bitmaps = [workload.vocabulary.bitmap(tuple(values)) for values in workload.values.tolist()]
    assert bitmaps == ["00110", "10001"]
    assert workload.consumer.tolist() == [1, 0, 2]
    assert workload.waiting.mean() == pytest.approx(1.5, abs=0.03)
    assert np.bincount(workload.producer).tolist() == pytest.approx([2500, 2500], abs=150)
    assert workload.at[-1] == pytest.approx(0.1, rel=0.1)  # 50,000 a second


def test_shared_part_is_a_setting() -> None:
    workload = paper_offers(PaperSettings(records=5_000, shared=0.7), seed=1)
    assert workload.waiting.mean() == pytest.approx(1.7, abs=0.03)


def test_seed_decides() -> None:
    one, same, other = (crowd_offers(SMALL, seed) for seed in (1, 1, 2))
    assert (one.content == same.content).all()
    assert (one.at == same.at).all()
    assert not (one.size_bytes == other.size_bytes).all()


def test_setting_moves_its_own_part_only() -> None:
    one = crowd_offers(SMALL, 1)
    larger = crowd_offers(replace(SMALL, size_bytes=(7.0, 1.0)), 1)
    assert (one.content == larger.content).all()
    assert (one.waiting == larger.waiting).all()
    assert (one.at == larger.at).all()
    assert larger.size_bytes.mean() > one.size_bytes.mean()


def test_crowd_has_a_long_tail_of_interest() -> None:
    workload = crowd_offers(CrowdSettings(records=10_000), seed=1).check()
    assert len(workload.values) > 2_000  # contents that were published
    median, most = np.percentile(workload.waiting, [50, 100])
    assert 2 <= median <= 20
    assert most > 10 * median


def test_campaign_is_a_run_of_one_restaurant() -> None:
    settings = replace(SMALL, campaign_every=500, campaign_records=100)
    restaurants = crowd_offers(settings, 1).producer
    for begin in range(0, settings.records, 500):
        assert len(set(restaurants[begin : begin + 100].tolist())) == 1
        assert len(set(restaurants[begin + 100 : begin + 500].tolist())) > 10


def test_nobody_subscribes_to_everything() -> None:
    settings = replace(SMALL, open_restaurant=1.0, open_food=1.0, open_discount=1.0)
    wanted = [values for _, values in crowd_subscriptions(settings, 1)]
    assert all(values[0] != OPEN and values[1:] == (OPEN, OPEN) for values in wanted)


def test_offers_are_kept_in_files(tmp_path: Path) -> None:
    workload = crowd_offers(SMALL, 1)
    workload.save(tmp_path)
    for mmap in (True, False):
        again = Offers.load(tmp_path, mmap=mmap)
        assert (again.waiting == workload.waiting).all()
        assert again.vocabulary == workload.vocabulary
    (tmp_path / "content.npy").write_bytes(b"cut")
    with pytest.raises(SettingError, match="holds no offers"):
        Offers.load(tmp_path)


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (PaperSettings, "records", 0),
        (PaperSettings, "shared", 1.5),
        (PaperSettings, "subscriptions", ("10",)),
        (PaperSettings, "subscriptions", ("1**01",)),
        (PaperSettings, "subscriptions", ()),
        (PaperSettings, "restaurants", 0),
        (CrowdSettings, "consumers", 0),
        (CrowdSettings, "open_food", 2.0),
        (CrowdSettings, "read_every_s", (5.0, 1.0)),
        (CrowdSettings, "size_bytes", (99.0, 1.0)),
    ],
)
def test_impossible_setting_is_refused_by_name(kind: Any, field: str, value: Any) -> None:
    with pytest.raises(SettingError) as told:
        kind(**{field: value})
    assert told.value.field == field


def test_impossible_offers_name_the_record() -> None:
    with pytest.raises(SettingError, match="record 2: its time"):
        made([[0]], [(2, 0, 10), (1, 0, 10)], [(0, 0)])
    with pytest.raises(SettingError, match="record 1: its size"):
        made([[0]], [(2, 0, 0)], [(0, 0)])
    with pytest.raises(SettingError, match="consumer that does not exist"):
        made([[1]], [(2, 0, 5)], [(0, 0)])
