"""Forms with files, in whatever pieces they come."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.errors import InvalidInput
from tocsin.service.multipart import Multipart, Part, boundary_of, is_form

BOUNDARY = b"----mark"
ATOMS = [b"a", b"\r\n", b"\r", b"\n", b"-", b"--", BOUNDARY[:-1], BOUNDARY[-1:], b"\x00"]
BODIES = st.lists(
    st.lists(st.sampled_from(ATOMS))
    .map(b"".join)
    .filter(lambda body: b"\r\n--" + BOUNDARY not in b"\r\n" + body + b"\r\n"),
    min_size=1,
    max_size=4,
)
HEAD = b'Content-Disposition: form-data; name="p"; filename="\xc3\xa4.png"\r\nX:  y\r\n\r\n'
ANYTHING = st.lists(
    st.sampled_from([*ATOMS, b"--" + BOUNDARY, b"\r\n--" + BOUNDARY + b"\r\n", HEAD, b"x: y", b":"])
).map(b"".join)
CUTS = st.lists(st.integers(0, 400), max_size=12)


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


def cut(whole: bytes, cuts: list[int]) -> list[bytes]:
    marks = [0, *sorted(min(one, len(whole)) for one in cuts), len(whole)]
    return [whole[begin:end] for begin, end in pairwise(marks)]


@given(BODIES, CUTS)
def test_bodies_come_whole_however_they_are_cut(bodies: list[bytes], cuts: list[int]) -> None:
    assert read(cut(form(bodies), cuts)) == ({f"p{n}": body for n, body in enumerate(bodies)}, True)


@given(st.booleans(), ANYTHING, CUTS)
def test_how_it_is_cut_changes_nothing(begins: bool, sent: bytes, cuts: list[int]) -> None:
    """Of a form or of anything else: the same parts, or an error each time."""
    sent = b"--" + BOUNDARY + b"\r\n" + HEAD + sent if begins else sent

    def told(pieces: list[bytes]) -> object:
        try:
            return read(pieces)
        except InvalidInput:
            return None

    assert told(cut(sent, cuts)) == told([sent]) == told([bytes([one]) for one in sent])


@given(BODIES, st.integers(0, 400))
def test_what_is_cut_short_is_never_whole(bodies: list[bytes], at: int) -> None:
    whole = form(bodies, end=b"--")
    assert read([whole[: min(at, len(whole) - 1)]])[1] is False


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ('filename="a \\"b\\".png"', 'a "b".png'),
        ('filename="a;b.png"', "a;b.png"),
        ("filename=plain.png", "plain.png"),
        ('filename="Überschwemmung.png"', "Überschwemmung.png"),  # as browsers send it
        ("filename*=UTF-8''%C3%BC.png; filename=\"u.png\"", "u.png"),  # RFC 7578, 4.2
        ("x=y", None),
    ],
)
def test_a_file_has_a_name_and_a_type(told: str, name: str | None) -> None:
    head = f'content-DISPOSITION: form-data; name="photo"; {told}'
    text = f"------mark\r\n{head}\r\nContent-Type: image/png\r\n\r\nx\r\n------mark--"
    assert Multipart(BOUNDARY).feed(text.encode()) == [Part("photo", name, "image/png"), b"x"]


def test_a_form_may_begin_with_empty_lines_and_have_no_parts() -> None:
    assert read([b"\r\n", b"\r\n------mark--"]) == ({}, True)
    assert read([b"\r\n\r\n" + form([b"x"])]) == ({"p0": b"x"}, True)
    assert read([form([b"x"]), b"what follows is nobody's" * 1000]) == ({"p0": b"x"}, True)


@pytest.mark.parametrize(
    "sent",
    [
        b"x" * 20_000,
        b"\r\nsome words first\r\n" + form([b"x"]),
        b"------other\r\n",
        b"------mark\r\n" + b"x" * 20_000,
        b"------mark\r\nx: " + b"x" * 20_000,
        b"------mark\r\n" + b"x: y\r\n" * 20,
        b"------mark\r\nno header\r\n\r\n",
        b"------mark junk\r\n\r\nx",
        b"------mark\r\n\r\nx",
        b"------mark\r\nContent-Disposition: form-data\r\n\r\nx",
        b'------mark\r\nContent-Disposition: form-data; name=""\r\n\r\nx',
    ],
)
def test_what_is_no_form_is_refused(sent: bytes) -> None:
    with pytest.raises(InvalidInput, match="not multipart/form-data") as raised:
        Multipart(BOUNDARY).feed(sent)
    assert raised.value.field == "body"
    assert "curl -F" in (raised.value.hint or "")


@pytest.mark.parametrize(
    "kind",
    [
        "multipart/form-data",
        'multipart/form-data; boundary=""',
        "multipart/form-data; b=1",
        "multipart/form-data; boundary=" + "x" * 300,
    ],
)
def test_a_boundary_must_be_named(kind: str) -> None:
    with pytest.raises(InvalidInput, match="boundary"):
        boundary_of(kind)
    assert boundary_of('multipart/form-data; boundary="a b"') == b"a b"


def test_a_form_is_known_by_its_type() -> None:
    for kind in ("multipart/form-data", "Multipart/Form-Data; boundary=x"):
        assert is_form(kind)
    for other in (None, "", "multipart/mixed; boundary=x", "application/json"):
        assert not is_form(other)
