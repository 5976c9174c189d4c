"""Where Delta tables lie: the setting `tables`, and what each library needs to get there.

Spark, deltalake and Arrow each have words of their own for the same bucket and key. What an address
does not say of S3 is taken from the variables that every client of S3 reads.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct
from pyarrow import ArrowException
from pyarrow.fs import (
    FileSystem,
    FSSpecHandler,
    HadoopFileSystem,
    LocalFileSystem,
    PyFileSystem,
)

from tocsin import extras
from tocsin.errors import SettingError
from tocsin.settings import without_secrets
from tocsin.storage.content.opening import CONFIG
from tocsin.storage.store.schema import NAME_CHARACTERS
from tocsin.storage.tables.port import Folder

FIELD = "tables"
LOG = "_delta_log"  # the folder that makes one a table
SCHEMES = ("file", "s3a", "hdfs")
OPTIONS = {
    "endpoint_url": "AWS_ENDPOINT_URL",
    "key": "AWS_ACCESS_KEY_ID",
    "secret": "AWS_SECRET_ACCESS_KEY",
    "region": "AWS_REGION",
}
_SHAPE = "such as s3a://bucket/folder, hdfs://host:8020/folder or file:///directory"
_REGION = "us-east-1"


class TableAddress(Struct, frozen=True):
    scheme: str
    place: str  # of a bucket, host or nothing, and the path behind it, without a slash at the end
    options: dict[str, str]

    @classmethod
    def parse(cls, text: str, environ: Mapping[str, str] | None = None) -> TableAddress:
        environ = os.environ if environ is None else environ
        shown = without_secrets(text.partition("?")[0])
        parts = urlsplit(text)
        scheme = "s3a" if parts.scheme == "s3" else parts.scheme
        if scheme not in SCHEMES:
            raise _wrong(shown, "nobody knows how to reach it", _SHAPE)
        place = f"{parts.netloc}{parts.path}".rstrip("/")
        if not place or (scheme == "file") != place.startswith("/"):
            raise _wrong(shown, "it does not say where", _SHAPE)
        if len(f"{scheme}://{place}") > NAME_CHARACTERS:  # the store notes it
            raise _wrong(shown, f"it has more than {NAME_CHARACTERS} characters", _SHAPE)
        given = dict(parse_qsl(parts.query))
        known = OPTIONS if scheme == "s3a" else {}
        for name in given:
            if name not in known:
                raise _wrong(shown, f"no option is called {name!r}", f"known: {', '.join(known)}")
        values = {name: given.get(name) or environ.get(word, "") for name, word in known.items()}
        return cls(scheme, place, {name: value for name, value in values.items() if value})

    @property
    def shown(self) -> str:
        """As people may read it, and as Spark takes it."""
        return f"{self.scheme}://{self.place}"

    @property
    def directory(self) -> Path | None:
        """Of tables on this machine's disks."""
        return Path(self.place) if self.scheme == "file" else None

    def of(self, table: str) -> str:
        return f"{self.shown}/{table}"

    def spark_conf(self) -> dict[str, str]:
        """How Spark's driver and its executors, whose environment is another, reach it."""
        words = {
            "endpoint_url": "fs.s3a.endpoint",
            "key": "fs.s3a.access.key",
            "secret": "fs.s3a.secret.key",
            "region": "fs.s3a.endpoint.region",
        }
        conf = {f"spark.hadoop.{words[name]}": value for name, value in self.options.items()}
        if "endpoint_url" in self.options:  # not Amazon's, whose buckets have names of their own
            conf["spark.hadoop.fs.s3a.path.style.access"] = "true"
            conf.setdefault("spark.hadoop.fs.s3a.endpoint.region", _REGION)
        return conf

    def storage_options(self) -> dict[str, str]:
        """For deltalake."""
        options = {OPTIONS[name]: value for name, value in self.options.items()}
        if self.scheme == "s3a":
            options.setdefault("AWS_REGION", _REGION)
            if options.get("AWS_ENDPOINT_URL", "").startswith("http:"):
                options["AWS_ALLOW_HTTP"] = "true"
        return options

    def folder(self) -> Folder:
        """For Arrow, which reads and writes single files."""
        return Folder(self._filesystem(), self._path)

    @property
    def _path(self) -> str:
        if self.scheme != "hdfs":
            return self.place
        return "/" + self.place.partition("/")[2]

    def _filesystem(self) -> FileSystem:
        if self.scheme == "file":
            return LocalFileSystem()
        if self.scheme == "s3a":
            return PyFileSystem(FSSpecHandler(self._s3()))
        try:
            return HadoopFileSystem.from_uri(self.shown)
        except (OSError, ArrowException) as error:  # without Hadoop's own libraries
            raise _wrong(
                self.shown, first_line(error), "Arrow needs libhdfs and JAVA_HOME"
            ) from None

    def _s3(self) -> Any:
        """Arrow's own client sends checksums that not every store knows."""
        extras.require("s3")
        from s3fs import S3FileSystem  # an extra

        return S3FileSystem(
            key=self.options.get("key"),
            secret=self.options.get("secret"),
            endpoint_url=self.options.get("endpoint_url"),
            client_kwargs={"region_name": self.options.get("region", _REGION)},
            config_kwargs=CONFIG,
            use_listings_cache=False,  # others may change what is there
        )


def first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__


def _wrong(shown: str, why: str, hint: str) -> SettingError:
    return SettingError(f"tables at {shown}: {why}", field=FIELD, hint=hint)
