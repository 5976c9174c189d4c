"""The city's pictures: real ones, the same for the same seed; and who opens them."""

from __future__ import annotations

import asyncio
import hashlib
import io

import pytest
from PIL import Image

from tocsin.client.feed import Result
from tocsin.demo import city, gallery
from tocsin.demo.gallery import Gallery
from tocsin.demo.pictures import SIDES, draw
from tocsin.errors import Unavailable

PHOTO = {"id": hashlib.sha256(b"x").hexdigest(), "size": 1, "type": "image/png"}


@pytest.mark.parametrize("kind", [*city.TYPES, "drill"])
def test_a_picture_is_a_small_png(kind: str) -> None:
    data = draw(kind, "7 report-1")
    with Image.open(io.BytesIO(data)) as image:
        image.load()
        assert image.format == "PNG"
        assert image.size[0] == image.size[1] in SIDES
    assert 500 < len(data) < 10_000


def test_a_picture_is_its_seeds() -> None:
    assert draw("flood", "1 a") == draw("flood", "1 a")
    assert len({draw(kind, f"{n} a") for kind in ("flood", "fire") for n in (1, 2)}) == 4


def result(**value: object) -> Result:
    return Result(value, 3, 0.0, "alerts", "e", subscription=7)


async def test_some_of_those_who_saw_it_open_it_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "OPENED_SHARE", 0.25)
    opened: list[str] = []

    async def open_(broker: str, token: str, result: Result, field: str) -> None:
        opened.append(f"{broker} {field}")

    mishaps: list[str] = []
    shown = Gallery(open_, 1, 60_000.0, mishaps)
    for _ in range(400):
        shown.shown("broker_1", "t", result(n=1, photo=PHOTO))
        shown.shown("broker_2", "t", result(n=1, photo=None))
    await asyncio.wait(shown._openings)
    assert set(opened) == {"broker_1 photo"}
    assert 60 < shown.opened == len(opened) < 140
    assert mishaps == []


async def test_what_fails_is_a_mishap_and_the_end_waits_for_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gallery, "OPENED_SHARE", 1.0)

    async def open_(broker: str, token: str, result: Result, field: str) -> None:
        raise Unavailable("it is gone")

    mishaps: list[str] = []
    soon, late = Gallery(open_, 1, 1e9, mishaps), Gallery(open_, 1, 1e-3, mishaps)
    for each in (soon, late):
        each.shown("broker_1", "t", result(photo=PHOTO))
    await asyncio.wait(soon._openings)
    await late.close()
    assert mishaps == ["a picture: it is gone"]
    assert not late._openings
