"""`tocsin listen` at work: what is asked for on the command line is printed, line by line."""

from __future__ import annotations

import asyncio
import json
import sys

from broker.world import PATIENCE_S, token, world
from tocsin.testing.fake_routing import ROUTED


async def test_records_of_a_dataset_are_printed_from_the_past_on() -> None:
    async with world() as made:
        await made.broker()
        made.cluster.route(ROUTED.name, [{"key": "a", "n": n} for n in range(5)])
        words = ["listen", "--dataset", ROUTED.name, "--where", "n <> 3", "--from", "last 2"]
        words += ["--count", "2", "--coordinator", made.coordinator_url, "--token", token("alice")]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tocsin", *words, stdout=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(3 * PATIENCE_S):
            printed, _ = await process.communicate()
        assert process.returncode == 0
        assert [json.loads(line)["n"] for line in printed.splitlines()] == [2, 4]
