"""S3Proxy: the S3 API over files of a directory. A bucket is a folder of the data directory."""

from __future__ import annotations

import secrets
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tocsin.dev.java_server import JavaServer
from tocsin.dev.s3_jars import S3PROXY
from tocsin.system.launching import Command
from tocsin.system.ports import HOST

NAME = "tocsin"
"""Of the first bucket, and of the key that may do everything."""
PRIVATE = 0o750  # a folder that everybody may read is a public bucket


class S3(JavaServer):
    name = "s3"
    title = "S3Proxy"
    jars = S3PROXY
    memory = "256m"

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        if not self._record.password:
            self._record.password = secrets.token_hex(16)

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What every client of S3 reads."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": NAME,
            "AWS_SECRET_ACCESS_KEY": self._record.password,
        }

    @property
    def url(self) -> str:
        return self._url(NAME)

    def fresh(self) -> str:
        """The address of a new, empty bucket."""
        bucket = f"{NAME}-{secrets.token_hex(6)}"
        (self.data / bucket).mkdir(PRIVATE)
        return self._url(bucket)

    def _url(self, bucket: str) -> str:
        options = f"endpoint_url={self.endpoint}&key={NAME}&secret={self._record.password}"
        return f"s3://{bucket}?{options}"

    def _make_data(self, data: Path) -> None:
        data.mkdir()
        (data / NAME).mkdir(PRIVATE)

    def _launch(self) -> None:
        file = self.home / "s3proxy.properties"
        file.touch(0o600)
        file.write_text(self._properties())
        words = self._java("org.gaul.s3proxy.Main", "--properties", str(file))
        self._start_process(self.name, Command(words, str(self.log)))
        self._until(self._answers)

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(self.endpoint, timeout=2).close()
        except urllib.error.HTTPError:
            return True  # it wants a signature
        except OSError:
            return False
        return True

    def _properties(self) -> str:
        values = {
            "s3proxy.endpoint": self.endpoint,
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": NAME,
            "s3proxy.credential": self._record.password,
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": self.data,
            # jclouds asks for them of every provider; files need none.
            "jclouds.identity": NAME,
            "jclouds.credential": NAME,
        }
        return "".join(f"{key}={value}\n" for key, value in values.items())
