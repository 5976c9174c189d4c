"""Java and its workers get what they need of our environment, and no secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tocsin.settings import SHORT_LIVED_JAVA
from tocsin.spark.java_environment import passed_on

SECRETS = {
    "TOCSIN_SECRET": "not-for-java",
    "TOCSIN_STORE": "postgresql://a:not-for-java@b/c",
    "AWS_SECRET_ACCESS_KEY": "not-for-java",
    "PGPASSWORD": "not-for-java",
    "SOMETHING_NEW": "not-for-java",
}
SCRIPT = f"""
import json, os, sys
from pathlib import Path
from tocsin.spark.session import build_session
from tocsin.settings import Settings
data = Path(sys.argv[1])
settings = Settings(data=data, master="local[1]", java_options={SHORT_LIVED_JAVA!r})
spark = build_session(settings)
java = dict(spark.sparkContext._jvm.java.lang.System.getenv())
def environment(_):
    import os
    yield dict(os.environ)
(worker,) = spark.sparkContext.parallelize([1], 1).mapPartitions(environment).collect()
print(json.dumps([java, worker, dict(os.environ)]))
spark.stop()
"""


def test_only_allowed_variables_are_passed_on() -> None:
    needed = {"PATH": "a", "JAVA_HOME": "b", "LC_ALL": "c", "SPARK_LOCAL_IP": "d"}
    assert passed_on(needed | SECRETS) == needed


@pytest.mark.spark
def test_no_secret_is_in_the_environment_of_java_or_its_workers(tmp_path: Path) -> None:
    known = {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        env=known | SECRETS,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    java, worker, ours = json.loads(run.stdout.strip().splitlines()[-1])
    assert ours["TOCSIN_SECRET"] == SECRETS["TOCSIN_SECRET"]  # it is ours to keep
    for environment in (java, worker):
        assert "PATH" in environment
        assert not SECRETS.keys() & environment.keys()
        assert "not-for-java" not in json.dumps(environment)
