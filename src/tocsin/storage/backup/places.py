"""Where a system keeps what it must not lose, by its settings."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from sqlalchemy.engine import make_url

from tocsin.errors import SettingError
from tocsin.service.keys.notices import FILE as NOTICE_SECRET
from tocsin.service.keys.revocations import FILE as REVOKED
from tocsin.settings import Settings


class Places(Struct, frozen=True):
    data: Path
    store: str  # an address
    log: str  # a directory, or an address
    tables: str  # as the setting has it: of Delta tables, or nothing
    attachments: str  # as the setting has it
    revoked: Path
    record_limit_bytes: int

    @classmethod
    def of(cls, settings: Settings) -> Places:
        data = Path(settings.data).absolute()
        return cls(
            data=data,
            store=settings.store or f"sqlite:///{data / 'store.db'}",
            log=settings.log or str(data / "log"),
            tables=settings.tables,
            attachments=settings.attachments,
            revoked=Path(settings.revocations or data / REVOKED),
            record_limit_bytes=settings.record_limit_bytes,
        )

    @property
    def datasets(self) -> Path:
        return self.data / "datasets"

    @property
    def logs_in_files(self) -> bool:
        return "://" not in self.log

    @property
    def directories(self) -> list[Path]:
        """What of it is on this machine's disks, but for attachments."""
        return [self.data, *([Path(self.log)] if self.logs_in_files else [])]

    @property
    def system_files(self) -> dict[str, Path]:
        """What services share besides, by its name in a backup. Each may be missing."""
        return {
            "secret": self.data / "secret",
            NOTICE_SECRET: self.data / NOTICE_SECRET,
            REVOKED: self.revoked,
        }

    @property
    def store_file(self) -> Path | None:
        """Of a store that is a file."""
        url = make_url(self.store)
        return Path(url.database or "") if url.get_backend_name() == "sqlite" else None

    def require_store(self) -> None:
        """SettingError if the store's file is missing: SQLite would make it."""
        file = self.store_file
        if file is not None and not file.exists():
            raise SettingError(
                f"there is no store in {file.parent}",
                field="store" if file.parent != self.data else "data",
                hint="name the data directory of a cluster (--data), or its store (--store)",
            )
