"""What a broker may rely on from any cluster for records that are routed by filters, by HTTP alone.

Records are published to `contract_routed (key STRING, n BIGINT)`, which others may use as well: a
check looks at keys of its own. Positions are the ends of records in the log.
"""

from __future__ import annotations

import asyncio
from typing import Any

from contracts.cluster_contract import PATIENCE_S, Check, Driver, Probe, fresh, probe

DATASET = "contract_routed"
CHANNEL = f"dataset/{DATASET}"
LARGEST = 2**62


def records(key: str, *numbers: int) -> list[dict[str, Any]]:
    return [{"key": key, "n": n} for n in numbers]


def numbers_of(answer: Any) -> list[int]:
    return [one["value"]["n"] for one in answer["results"]]


async def subscribe(
    broker: Probe,
    where: Any,
    *,
    subscriber: str = "",
    beginning: dict[str, int] | None = None,
    status: int = 200,
) -> Any:
    body = {
        "subscriber": subscriber or fresh("alice"),
        "broker": broker.name,
        "channel": CHANNEL,
        "arguments": {"where": where},
        **({} if beginning is None else {"from": beginning}),
    }
    return await broker.call("POST", "/v1/subscriptions", body, status)


async def log_of(broker: Probe, after: int, upto: int | None = None, limit: int = 1000) -> Any:
    until = "" if upto is None else f"&upto={upto}"
    path = f"/v1/datasets/{DATASET}/log?after={after}&limit={limit}{until}"
    return await broker.call("GET", path)


async def a_filter_is_told_with_its_form_and_begins_at_the_logs_end(driver: Driver) -> None:
    key = fresh("key")
    async with probe(driver) as broker:
        await driver.publish(records(key, 1, 2))
        made = await subscribe(broker, f"n > 1 AND key = '{key}'")
        assert made["arguments"] == {"where": f"key = '{key}' AND n >= 2"}
        assert made["filter"]["dataset"] == DATASET
        assert [one["column"] for one in made["filter"]["constraints"]] == ["key", "n"]
        assert made["floor"] <= made["marker"] == made["head"] > 0
        (listed,) = (await broker.load())["subscriptions"]
        assert listed == made
        attached = await broker.call(
            "POST", f"/v1/brokers/{broker.name}/attach", {"subscriber": made["subscriber"]}
        )
        assert attached["subscriptions"] == [made]


async def equal_filters_are_one_backend_subscription(driver: Driver) -> None:
    key = fresh("key")
    async with probe(driver) as broker:
        one = await subscribe(broker, f"n > 1 AND key = '{key}'")
        two = await subscribe(broker, f"key IN ('{key}') AND n >= 2")
        assert (two["backend"], two["epoch"]) == (one["backend"], one["epoch"])
        everything = await subscribe(broker, "")
        assert everything["arguments"] == {"where": ""}
        assert everything["backend"] != one["backend"]
        body = {"subscriber": "x", "broker": broker.name, "channel": CHANNEL}
        bare = await broker.call("POST", "/v1/subscriptions", body)
        assert bare["backend"] == everything["backend"]


async def a_token_that_a_broker_passes_on_speaks_for_its_own_subject(driver: Driver) -> None:
    alice, bob = fresh("alice"), fresh("bob")
    async with probe(driver) as broker:
        attach = f"/v1/brokers/{broker.name}/attach"
        own, other = broker.token_of(alice), broker.token_of(bob)
        body = {"subscriber": alice, "broker": broker.name, "channel": CHANNEL}
        made = await broker.call("POST", "/v1/subscriptions", body, on_behalf=own)
        assert made["subscriber"] == alice
        who = {"subscriber": alice}
        assert (await broker.call("POST", attach, who, on_behalf=own))["subscriptions"] == [made]
        for path, asked in ((attach, who), ("/v1/subscriptions", body)):
            publisher = broker.token_of(alice, "publish")
            for token, status in ((other, 403), (publisher, 403), ("x.y.z", 401)):
                told = await broker.call("POST", path, asked, status, on_behalf=token)
                assert told["error"]["field"] in ("Tocsin-Subscriber-Token", "scope")


async def ranges_of_a_filter_say_how_far_they_looked(driver: Driver) -> None:
    key = fresh("key")
    async with probe(driver) as broker:
        made = await subscribe(broker, f"n >= 2 AND key = '{key}'")
        await driver.publish(records(key, 1, 2, 3))
        await driver.publish(records(fresh("other"), 9))
        await driver.publish(records(key, 4, 0))
        head = (await log_of(broker, made["marker"]))["upto"]
        whole = await broker.fetch(made["backend"], made["marker"], head)
        assert numbers_of(whole) == [2, 3, 4]
        assert (whole["upto"], whole["epoch"]) == (head, made["epoch"])
        assert whole["floor"] <= made["marker"] < head <= whole["head"]
        positions = [one["position"] for one in whole["results"]]
        part = await broker.fetch(made["backend"], made["marker"], head, limit=2)
        assert numbers_of(part) == [2, 3]
        assert part["upto"] == positions[1]
        rest = await broker.fetch(made["backend"], positions[1], head)
        assert numbers_of(rest) == [4]
        inside = await broker.fetch(made["backend"], made["marker"], positions[0])
        assert (numbers_of(inside), inside["upto"]) == ([2], positions[0])


async def a_place_inside_a_record_is_after_the_one_before(driver: Driver) -> None:
    key = fresh("key")
    async with probe(driver) as broker:
        made = await subscribe(broker, f"key = '{key}'")
        await driver.publish(records(key, 1, 2))
        whole = await broker.fetch(made["backend"], made["marker"], LARGEST)
        first, second = (one["position"] for one in whole["results"])
        if second == first + 1:
            return  # there is nothing inside
        between = await broker.fetch(made["backend"], first + 1, LARGEST)
        assert numbers_of(between) == [2]
        assert numbers_of(await broker.fetch(made["backend"], first - 1, second - 1)) == [1]
        told = await log_of(broker, first + 1, second)
        assert [one["record"]["n"] for one in told["records"]] == [2]


async def the_log_is_told_by_ranges(driver: Driver) -> None:
    key = fresh("key")
    async with probe(driver) as broker:
        begin = (await log_of(broker, 0, limit=1))["floor"]
        made = await subscribe(broker, f"key = '{key}'")
        await driver.publish(records(key, 1, 2, 3))
        whole = await log_of(broker, made["marker"])
        assert whole["floor"] == begin
        mine = [one for one in whole["records"] if one["record"]["key"] == key]
        assert [one["record"] for one in mine] == records(key, 1, 2, 3)
        assert whole["upto"] >= mine[-1]["position"]
        assert all(isinstance(one["at"], float) for one in mine)
        part = await log_of(broker, mine[0]["position"], mine[2]["position"], limit=1)
        assert part["records"] == [mine[1]]
        assert part["upto"] == mine[1]["position"]
        nothing = await log_of(broker, mine[2]["position"], mine[2]["position"])
        assert (nothing["records"], nothing["upto"]) == ([], mine[2]["position"])
        await broker.call("GET", "/v1/datasets/nobody_made_this/log", status=404)


async def records_are_told_as_they_come_in_the_logs_order(driver: Driver) -> None:
    key = fresh("key")
    async with probe(driver) as broker, asyncio.timeout(PATIENCE_S):
        async with broker.lines("/v1/routed") as lines:
            entered = 0
            async for line in lines:
                if line["dataset"] == DATASET:
                    entered = line["entered"]
                    break
            await driver.publish(records(key, 1, 2))
            await driver.publish(records(key, 3))
            reached = entered
            heard: list[Any] = []
            async for line in lines:
                if line["dataset"] != DATASET:
                    continue
                if "passed" in line:
                    assert line["passed"] >= reached
                    if len(heard) == 3:
                        break
                    continue
                assert reached <= line["after"] < line["position"]
                reached = line["position"]
                if line["record"]["key"] == key:
                    heard.append(line)
        told = (await log_of(broker, entered, heard[-1]["position"]))["records"]
        mine = [one for one in told if one["record"]["key"] == key]
        kept = ("position", "at", "record")
        assert [{name: one[name] for name in kept} for one in heard] == mine
        assert [one["record"] for one in heard] == records(key, 1, 2, 3)


async def markers_of_filters_go_as_far_as_the_log(driver: Driver) -> None:
    key = fresh("key")
    async with probe(driver) as broker:
        made = await subscribe(broker, f"key = '{key}'")
        await driver.publish(records(key, 1, 2))
        whole = await broker.fetch(made["backend"], made["marker"], LARGEST)
        first, second = (one["position"] for one in whole["results"])

        async def store(position: int) -> int:
            marker = {"subscription": made["subscription"], "epoch": made["epoch"]}
            body = {"markers": [marker | {"position": position}]}
            assert await broker.call("POST", "/v1/markers", body) == {"unknown": []}
            (listed,) = (await broker.load())["subscriptions"]
            return int(listed["marker"])

        assert await store(first) == first
        assert await store(made["marker"]) == first
        assert await store(second) == second
        assert second <= await store(LARGEST) < LARGEST


async def a_newcomer_hears_the_past_of_a_filter_if_it_says_so(driver: Driver) -> None:
    key = fresh("key")
    where = f"key = '{key}'"
    async with probe(driver) as broker:
        await driver.publish(records(key, 1, 2, 3))
        await driver.publish(records(fresh("other"), 9))
        for beginning, expected in (
            ({"last": 2}, [2, 3]),
            ({"last": 100}, [1, 2, 3]),
            ({"seconds": 3600}, [1, 2, 3]),
        ):
            made = await subscribe(broker, where, beginning=beginning)
            assert made["floor"] <= made["marker"] < made["head"]
            answer = await broker.fetch(made["backend"], made["marker"], made["head"])
            assert numbers_of(answer) == expected
        again = await subscribe(broker, where, subscriber=made["subscriber"], beginning={"last": 1})
        assert again == made
        wrongs: list[dict[str, int]] = [{"last": 0}, {"seconds": -1}, {}, {"last": 1, "seconds": 1}]
        for wrong in wrongs:
            told = await subscribe(broker, where, status=400, beginning=wrong)
            assert told["error"]["field"] == "from"


async def wrong_filters_are_refused_with_their_place(driver: Driver) -> None:
    async with probe(driver) as broker:
        told = (await subscribe(broker, "n > 1 AND colour = 'red'", status=400))["error"]
        assert (told["code"], told["line"], told["column"]) == ("statement", 1, 11)
        assert told["field"] == "colour"
        told = (await subscribe(broker, {"any": True}, status=400))["error"]
        assert told["field"] == "where"
        body = {
            "subscriber": "x",
            "broker": broker.name,
            "channel": "dataset/nobody_made_this",
            "arguments": {"where": ""},
        }
        told = (await broker.call("POST", "/v1/subscriptions", body, 404))["error"]
        assert told["field"] == "dataset"


ROUTING_CHECKS: list[Check] = [
    a_token_that_a_broker_passes_on_speaks_for_its_own_subject,
    a_filter_is_told_with_its_form_and_begins_at_the_logs_end,
    equal_filters_are_one_backend_subscription,
    ranges_of_a_filter_say_how_far_they_looked,
    a_place_inside_a_record_is_after_the_one_before,
    the_log_is_told_by_ranges,
    records_are_told_as_they_come_in_the_logs_order,
    markers_of_filters_go_as_far_as_the_log,
    a_newcomer_hears_the_past_of_a_filter_if_it_says_so,
    wrong_filters_are_refused_with_their_place,
]
