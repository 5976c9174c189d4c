"""Forms with files, in whatever pieces they come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.errors import InvalidInput
from tocsin.service.multipart import Multipart, Part, boundary_of

BOUNDARY = b"----mark"
BODIES = st.lists(
    st.lists(st.sampled_from([b"a", b"\r\n", b"--", BOUNDARY[:-1], b"\x00"])).map(b"".join),
    min_size=1,
    max_size=4,
)


def form(bodies: list[bytes], end: bytes = b"--\r\n") -> bytes:
    parts = [
        b'--%b\r\nContent-Disposition: form-data; name="p%d"\r\n\r\n%b\r\n' % (BOUNDARY, n, body)
        for n, body in enumerate(bodies)
    ]
    return b"".join(parts) + b"--" + BOUNDARY + end


def read(sent: list[bytes]) -> tuple[dict[str, bytes], bool]:
    found: dict[str, bytes] = {}
    parser, name = Multipart(BOUNDARY), ""
    for piece in sent:
        for told in parser.feed(piece):
            if isinstance(told, Part):
                name = told.name
                found[name] = b""
            else:
                found[name] += told
    return found, parser.whole


@given(BODIES, st.integers(1, 40))
def test_bodies_come_whole_however_they_are_cut(bodies: list[bytes], length: int) -> None:
    whole = form(bodies)
    pieces = [whole[at : at + length] for at in range(0, len(whole), length)]
    assert read(pieces) == ({f"p{n}": body for n, body in enumerate(bodies)}, True)


@given(BODIES, st.integers(0, 400))
def test_what_is_cut_short_is_never_whole(bodies: list[bytes], at: int) -> None:
    whole = form(bodies, end=b"--")
    assert read([whole[: min(at, len(whole) - 1)]])[1] is False


def test_a_file_has_a_name_and_a_type() -> None:
    head = 'Content-Disposition: form-data; name="photo"; filename="a \\"b\\".png"'
    text = f"------mark\r\n{head}\r\nContent-Type: image/png\r\n\r\nx\r\n------mark--"
    parser = Multipart(BOUNDARY)
    told = parser.feed(text.encode())
    assert told == [Part("photo", 'a "b".png', "image/png"), b"x"]


@pytest.mark.parametrize(
    "sent",
    [
        b"x" * 20_000,
        b"------mark\r\n" + b"x" * 20_000,
        b"------mark junk\r\n\r\nx",
        b"------mark\r\nContent-Disposition: form-data\r\n\r\nx",
    ],
)
def test_what_is_no_form_is_refused(sent: bytes) -> None:
    with pytest.raises(InvalidInput, match="not multipart/form-data"):
        Multipart(BOUNDARY).feed(sent)


@pytest.mark.parametrize(
    "kind", ["multipart/form-data", 'multipart/form-data; boundary=""', "multipart/form-data; b=1"]
)
def test_a_boundary_must_be_named(kind: str) -> None:
    with pytest.raises(InvalidInput, match="boundary"):
        boundary_of(kind)
    assert boundary_of('multipart/form-data; boundary="a b"') == b"a b"
