"""An object store from its address: s3://bucket/folder, or what else fsspec speaks with.

What no waiting mends (no such bucket, a wrong key) is raised at once. A store that does not answer
is reported in the log alone: everything but attachments works without it.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import structlog

from tocsin.errors import SettingError, is_bug
from tocsin.settings import without_secrets
from tocsin.storage.content.remote import RemoteMedium, why

log = structlog.get_logger()

FIELD = "attachments"
OPTIONS = ("endpoint_url", "key", "secret")
PART_BYTES = 8 * 1024 * 1024
TRIES = 2
CONFIG = {
    "connect_timeout": 5,
    "read_timeout": 15,
    "retries": {"mode": "standard", "total_max_attempts": TRIES},
    "max_pool_connections": 40,  # so many threads of the service may read at once
    # Not every store knows the newer checksums; bytes are checked by their hash anyway.
    "request_checksum_calculation": "when_required",
    "response_checksum_validation": "when_required",
}
_REMEDY = "pip install tocsin[s3]"
_KEYS = "look at AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
_SHAPE = "such as s3://bucket/folder"
_REFUSALS = (errno.EINVAL, errno.EPERM)  # as s3fs names what S3 finds wrong with a request


def open_remote(address: str, incoming: Path) -> RemoteMedium:
    bare, _, query = address.partition("?")
    shown = without_secrets(bare)
    options: dict[str, Any] = dict(parse_qsl(query))
    for name in options:
        if name not in OPTIONS:
            raise SettingError(
                f"attachments at {shown}: no option is called {name!r}",
                field=FIELD,
                hint=f"one of {', '.join(OPTIONS)}",
            )
    in_s3 = bare.startswith(("s3://", "s3a://"))
    if in_s3:
        options["config_kwargs"] = CONFIG
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise SettingError(
            f"attachments at {shown} need fsspec, which is not installed",
            field=FIELD,
            hint=_REMEDY,
        ) from None
    try:
        # Others may change what is there, and a memory of it would be wrong.
        files, root = url_to_fs(bare, use_listings_cache=False, **options)
    except ImportError as error:  # the package for this kind of address, s3fs for s3://
        raise SettingError(f"attachments at {shown}: {error}", field=FIELD, hint=_REMEDY) from None
    except (ValueError, TypeError) as error:
        raise SettingError(f"attachments at {shown}: {error}", field=FIELD) from None
    if not in_s3:
        return RemoteMedium(files, root, incoming, shown=shown)
    files.retries = TRIES  # above those of CONFIG
    _check(files, root, shown)
    parts = {"chunksize": PART_BYTES, "max_concurrency": 2}
    return RemoteMedium(files, root, incoming, shown=shown, put_options=parts)


def _check(files: Any, root: str, shown: str) -> None:
    """One request that needs the bucket, a good key and the right to list."""
    from botocore.exceptions import (
        NoCredentialsError,
        ParamValidationError,
        PartialCredentialsError,
        ProfileNotFound,
    )

    bucket, _, folder = root.partition("/")
    try:
        files.call_s3("list_objects_v2", Bucket=bucket, Prefix=folder, MaxKeys=1)
    except FileNotFoundError:
        raise SettingError(
            f"attachments at {shown}: there is no bucket {bucket!r}",
            field=FIELD,
            hint="make it first, or look at AWS_ENDPOINT_URL",
        ) from None
    except (
        NoCredentialsError,
        PartialCredentialsError,
        ProfileNotFound,
        PermissionError,
    ) as error:
        raise _refused(shown, why(error), _KEYS) from None
    except ParamValidationError:
        raise _refused(shown, f"{bucket!r} cannot name a bucket", _SHAPE) from None
    except ValueError as error:
        raise _refused(shown, why(error), _SHAPE) from None
    except Exception as error:  # of libraries that s3fs uses
        if is_bug(error):
            raise
        if isinstance(error, OSError) and error.errno in _REFUSALS:
            raise _refused(shown, why(error), _SHAPE) from None
        log.warning("attachments cannot be reached yet", at=shown, reason=why(error))


def _refused(shown: str, reason: str, hint: str) -> SettingError:
    return SettingError(f"attachments at {shown}: {reason}", field=FIELD, hint=hint)
