"""Whose a folder of attachments is. It is asked when the folder is opened, or as soon as it can be
reached, and again before anything in it is deleted."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.errors import SettingError, Unavailable
from tocsin.storage.content.port import Kept, Medium
from tocsin.storage.identity import Mark, belongs_to_another

FIELD = "attachments"
_EVER = 1e15  # finite: JSON has no infinity


class Claim:
    def __init__(
        self,
        medium: Medium,
        owner: Mark,
        *,
        expected: bool,
        require: Callable[[], None] = lambda: None,
    ) -> None:
        """`expected`: the owner has datasets with attachments, so that content may be its own.
        `require` raises Unavailable unless this process is the one that acts for the owner."""
        self._require = require
        self._medium = medium
        self._owner = owner
        self._expected = expected
        self._mark: Mark | None = None

    def make(self) -> None:
        """Mark the folder if nobody has; SettingError if it is somebody else's."""
        mark = self._medium.mark()
        if mark is None:
            newest = max((kept.modified_at for kept in self._medium.kept()), default=0.0)
            if newest and not self._expected:
                raise SettingError(
                    f"there are attachments in {self._medium.shown}, and no dataset of the store"
                    f" {self._owner} has any: another store was used with them",
                    field=FIELD,
                    hint="name another directory, or another folder of the bucket",
                )
            self._medium.put_mark(self._owner.now(kept_until=min(newest, _EVER)))
            mark = self._medium.mark()  # another may have come at the same moment
        if mark is None or mark.id != self._owner.id:
            what = f"the folder of attachments {self._medium.shown}"
            raise belongs_to_another(what, self._owner, mark or Mark("?"), FIELD)
        self._mark = mark

    def require(self, *, anew: bool = False) -> None:
        """Unavailable unless the folder is known to be the owner's."""
        if self._mark is not None and not anew:
            return
        self._mark = None
        try:
            self.make()
        except SettingError as error:
            raise Unavailable(error.message, field=FIELD, hint=error.hint) from None

    def may_delete(self, kept: Kept) -> bool:
        """What was there before the mark may be anybody's."""
        self._require()
        self.require()
        assert self._mark is not None
        return kept.modified_at > self._mark.kept_until
