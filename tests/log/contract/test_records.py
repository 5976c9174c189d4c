"""What any publication log holds to: what is acknowledged is there, once, in order."""

from __future__ import annotations

import itertools
import threading

import msgspec
import pytest

from log.media import MediumUnderTest, lines, records
from tocsin.errors import Gone, InvalidInput, NotFound, Unavailable
from tocsin.storage.log import PublicationLog, Reader

ODD = [
    b"{}",
    '{"word":"Grüß 🜂 \\u0000 \\" \\\\ \\n"}'.encode(),
    b'{"deep":' + b'{"a":' * 50 + b"1" + b"}" * 50 + b"}",
    b'{"r":{"t":1},"p":-1,"t":0}',
    b'{"long":"' + b"x" * 900_000 + b'"}',
]


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b'{"n":%d}' % n for n in range(start, start + count)]


def test_an_appended_record_is_read_back_at_its_position(log: PublicationLog) -> None:
    first = log.append("reports", [b'{"a":1}', (b'{"a":2}', b'{"z":"9"}')]).result()
    second = log.append("reports", [b'{"a":3}']).result()
    assert first[::2] == (0, False)
    assert second.first == first.end
    assert log.ends() == {"reports": second.end}
    found = lines(log)
    assert [body["p"] for _, body in found] == [p for p, _ in found]
    assert [body["r"]["a"] for _, body in found] == [1, 2, 3]
    assert [body.get("x") for _, body in found] == [None, {"z": "9"}, None]
    assert [p for p, _ in found if p >= second.first] == [second.first]


def test_an_empty_publication_takes_no_place(log: PublicationLog) -> None:
    end = log.append("reports", numbered(1)).result().end
    assert log.append("reports", []).result()[:2] == (end, end)
    assert log.append("reports", [], "5e1f").result()[:2] == (end, end)


@pytest.mark.parametrize("record", ODD, ids=range(len(ODD)))
def test_a_record_is_kept_to_the_byte_whatever_is_in_it(
    log: PublicationLog, reader: Reader, record: bytes
) -> None:
    end = log.append("reports", [record, (b"{}", b'{"x":"}"}')], "5e1f").result().end
    (_, first), (_, second) = reader.lines("reports", 0, end)
    assert first.endswith(b'"r":' + record + b"}")
    assert second.endswith(b'"r":{},"x":{"x":"}"}}')


def test_ranges_are_half_open(log: PublicationLog, reader: Reader) -> None:
    for n in range(9):
        log.append("reports", numbered(n % 3, n)).result()
    end = log.ends()["reports"]
    places = [p for p, _ in reader.lines("reports", 0, end)] + [end]
    assert len(places) == 10
    for a, b in itertools.combinations(range(len(places)), 2):
        assert [p for p, _ in reader.lines("reports", places[a], places[b])] == places[a:b]
    assert list(reader.lines("reports", end, end)) == []


def test_max_bytes_bounds_a_read_but_always_gives_one_record(
    log: PublicationLog, reader: Reader
) -> None:
    end = log.append("reports", numbered(10)).result().end
    whole = list(reader.lines("reports", 0, end))
    for most_bytes in (1, 100, 250, 10_000):
        found = list(reader.lines("reports", 0, end, most_bytes))
        assert found == whole[: len(found)]
        assert len(found) == 1 or sum(len(body) for _, body in found) <= most_bytes
    assert len(list(reader.lines("reports", 0, end, 250))) > 1
    assert list(reader.lines("reports", 0, end, 10_000)) == whole


def test_pieces_cover_a_range_without_overlap(log: PublicationLog, reader: Reader) -> None:
    for n in range(20):
        log.append("reports", numbered(2, n)).result()
    end = log.ends()["reports"]
    places = [p for p, _ in reader.lines("reports", 0, end)]
    for most_bytes in (1, 1000, 10**9):
        pieces = reader.pieces("reports", places[1], end, most_bytes)
        assert pieces[0][0] == places[1]
        assert pieces[-1][1] == end
        assert all(upto == start for (_, upto), (start, _) in itertools.pairwise(pieces))
        read = [p for a, b in pieces for p, _ in reader.lines("reports", a, b)]
        assert read == places[1:]
    assert reader.pieces("reports", end, end, 1) == []


def test_news_are_what_came_since_each_position(log: PublicationLog, reader: Reader) -> None:
    log.open_dataset("users")
    starts = {"reports": 0, "users": 0, "nobody": 0}
    seen: dict[str, list[int]] = {"reports": [], "users": []}
    expected: dict[str, list[int]] = {"reports": [], "users": []}

    def catch_up() -> None:
        while seen != expected:
            for dataset, new in reader.news(starts, 300).items():
                assert new.end > starts[dataset]
                seen[dataset] += [msgspec.json.decode(body)["r"]["n"] for _, body in new.lines]
                starts[dataset] = new.end

    for n, dataset in enumerate(["users", "reports", "users", "users"]):
        log.append(dataset, numbered(7, 10 * n)).result()
        expected[dataset] += range(10 * n, 10 * n + 7)
        catch_up()
    assert reader.news(starts, 300) == {}
    assert starts == log.ends() | {"nobody": 0}
    starts, seen = {"reports": 0, "users": starts["users"]}, {"reports": [], "users": []}
    expected["users"] = []
    catch_up()  # one goes back, the other stays


def test_news_from_before_what_is_kept_are_gone(medium: MediumUnderTest, reader: Reader) -> None:
    with medium.open(forgetful=True) as log:
        log.open_dataset("reports")
        log.append("reports", numbered(5)).result()
        log.retire("reports", log.roll("reports"))
        start = log.ends()["reports"]
        log.append("reports", numbered(1, 5)).result()

        def look() -> None:
            while not reader.news({"reports": 0}, 1000):
                pass

        with pytest.raises(Gone):
            look()
        while not (found := reader.news({"reports": start}, 1000)):
            pass
        assert [p for p, _ in found["reports"].lines] == [start]


def test_retired_records_are_gone_and_the_rest_stays(
    medium: MediumUnderTest, reader: Reader
) -> None:
    with medium.open(forgetful=True) as log:
        log.open_dataset("reports")
        log.append("reports", numbered(1)).result()
        middle = log.roll("reports")
        log.append("reports", numbered(1, 1)).result()
        end = log.roll("reports")
        assert reader.first_position("reports") == 0
        log.retire("reports", middle)
        assert reader.first_position("reports") == middle
        with pytest.raises(Gone):
            list(reader.lines("reports", 0, end))
        assert len(list(reader.lines("reports", middle, end))) == 1
        log.retire("reports", 0)
        log.retire("reports", end)
        assert reader.first_position("reports") == end
        assert log.append("reports", numbered(1)).result().first == end


def test_a_reopened_log_goes_on_where_it_ended(medium: MediumUnderTest) -> None:
    for start in (0, 3, 6):
        with medium.open() as log:
            log.open_dataset("reports")
            log.append("reports", numbered(3, start)).result()
            assert [record["n"] for record in records(log)] == list(range(start + 3))


def test_a_dropped_dataset_made_again_goes_on_from_its_old_end_and_shows_nothing_old(
    medium: MediumUnderTest, reader: Reader
) -> None:
    with medium.open() as log:
        log.open_dataset("reports")
        end = log.append("reports", numbered(4)).result().end
        log.drop_dataset("reports")
        assert log.ends() == {}
        with pytest.raises(NotFound):
            log.append("reports", numbered(1)).result()
        assert log.open_dataset("reports") == end
    with medium.open() as log:
        assert log.open_dataset("reports") == end
        with pytest.raises(Gone):
            list(reader.lines("reports", 0, end))
        after = log.append("reports", numbered(1, 7)).result()
        assert after.first == end
        assert records(log, end) == [{"n": 7}]


def test_a_created_dataset_is_empty_though_an_old_one_was_left_behind(
    medium: MediumUnderTest, reader: Reader
) -> None:
    with medium.open() as log:
        log.open_dataset("reports")
        end = log.append("reports", numbered(4)).result().end
    with medium.open() as log:
        assert log.create_dataset("reports") == end
        log.append("reports", numbered(1, 7)).result()
        assert records(log, end) == [{"n": 7}]
        with pytest.raises(Gone):
            list(reader.lines("reports", 0, end))


@pytest.mark.parametrize("name", ["", "..", "A", "1a", "a/b", "a b", "a\n", "_a"])
def test_a_name_that_is_no_dataset_name_is_refused(log: PublicationLog, name: str) -> None:
    with pytest.raises(InvalidInput):
        log.open_dataset(name)


def test_what_is_no_line_of_json_is_refused(log: PublicationLog) -> None:
    for record in (b'{"a":\n1}', (b"{}", b'{"a":\n"1"}')):
        with pytest.raises(InvalidInput):
            log.append("reports", [record])


def test_a_dataset_that_is_not_there_is_told(log: PublicationLog, reader: Reader) -> None:
    with pytest.raises(NotFound, match="users"):
        log.append("users", numbered(1)).result()
    with pytest.raises(NotFound, match="users"):
        reader.first_position("users")
    with pytest.raises(NotFound, match="users"):
        list(reader.lines("users", 0, 10))
    for refused in (log.drop_dataset, log.roll):
        with pytest.raises(NotFound, match="users"):
            refused("users")


def test_a_closed_log_says_so(medium: MediumUnderTest) -> None:
    log = medium.open()
    log.close()
    with pytest.raises(Unavailable):
        log.append("reports", [b"{}"])
    with pytest.raises(Unavailable):
        log.cut()
    log.close()


def test_what_was_queued_is_durable_when_the_log_is_closed(medium: MediumUnderTest) -> None:
    log = medium.open()
    log.open_dataset("reports")
    waiting = [log.append("reports", numbered(2, 2 * n)) for n in range(50)]
    log.close()
    assert [future.result().again for future in waiting] == [False] * 50
    with medium.open() as log:
        log.open_dataset("reports")
        assert [record["n"] for record in records(log)] == list(range(100))


def test_nobody_is_told_before_the_records_are_durable(
    medium: MediumUnderTest, log: PublicationLog
) -> None:
    end = log.append("reports", numbered(1)).result().end
    with medium.held():
        waiting = [log.append("reports", numbered(1, n)) for n in range(1, 4)]
        threading.Event().wait(0.3)
        assert not any(future.done() for future in waiting)
        assert log.ends()["reports"] == end
    assert [future.result(30).first for future in waiting] == [p for p, _ in lines(log)][1:]


def test_records_of_one_call_stay_together_among_many_publishers(log: PublicationLog) -> None:
    def publish(who: int) -> None:
        for n in range(20):
            key = f"{who}-{n}" if n % 2 else None
            log.append("reports", [b'{"w":%d,"n":%d}' % (who, n)] * 3, key).result()

    threads = [threading.Thread(target=publish, args=(who,)) for who in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = records(log)
    runs = [[*group] for _, group in itertools.groupby(found, key=lambda r: (r["w"], r["n"]))]
    assert len(runs) == 160
    assert all(len(run) == 3 for run in runs)
    for who in range(8):
        assert [run[0]["n"] for run in runs if run[0]["w"] == who] == list(range(20))


def test_datasets_do_not_see_each_other(log: PublicationLog) -> None:
    log.open_dataset("users")
    waiting = [
        log.append(dataset, [b'{"of":"%b"}' % dataset.encode()] * 2)
        for dataset in ("reports", "users") * 10
    ]
    for future in waiting:
        future.result()
    for dataset in ("reports", "users"):
        assert records(log, dataset=dataset) == [{"of": dataset}] * 20


def test_a_place_inside_a_record_is_that_records(log: PublicationLog, reader: Reader) -> None:
    sizes = (0, 9000, 50, 3)  # one is longer than is looked at in one go
    for size in sizes:
        log.append("reports", [b'{"pad":"%b"}' % (b"x" * size)]).result(30)
    end = log.ends()["reports"]
    found = list(reader.lines("reports", 0, end))
    starts = [position for position, _ in found]
    ends = [reader.end_of(position, body) for position, body in found]
    assert ends == [*starts[1:], end]
    assert reader.ends("reports", starts, end) == ends
    assert reader.ends("reports", [], end) == []
    for start, stop in zip(starts, ends, strict=True):
        inside = {start, start + 1, (start + stop) // 2, stop - 1} & set(range(start, stop))
        assert {reader.record_at("reports", one) for one in inside} == {start}


def test_who_watches_is_called_when_the_ends_have_moved(log: PublicationLog) -> None:
    seen: list[dict[str, int]] = []
    end = log.watch(lambda: seen.append(log.ends()))
    first = log.append("reports", [b"{}"]).result(30)
    assert seen[-1]["reports"] == first.end
    log.open_dataset("others")
    assert "others" in seen[-1]
    log.drop_dataset("others")
    assert "others" not in seen[-1]
    end()
    count = len(seen)
    log.append("reports", [b"{}"]).result(30)
    assert len(seen) == count
