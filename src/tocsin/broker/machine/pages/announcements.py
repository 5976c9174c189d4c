"""Which pages new results mention, for how many subscriptions here, and of which stories.

Results of several backend subscriptions that mention a page come close together. They are gathered
for a moment, so that the page cache decides upon a page with all that is known of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from tocsin.broker.machine.effects import NewPages
from tocsin.broker.machine.pages.stories import Stories
from tocsin.caching.page_cache import PageCache
from tocsin.model import Attachment, is_attachment_id

GATHER_S = 0.05
REMEMBERED = 50_000  # pages and stories of which something is known, though they are not here
NEVER = float("inf")


class Announced(NamedTuple):
    """A page that so many subscriptions here have matched so far."""

    page: str
    size_bytes: int
    subscriptions: int


class Supersession(NamedTuple):
    """There is a newer version of the page's story; or it is the newest of one again."""

    page: str
    is_so: bool


class Announcements:
    def __init__(self, cache: PageCache[str]) -> None:
        self._cache = cache
        self._matched: OrderedDict[str, int] = OrderedDict()  # page -> subscriptions so far
        self._stories = Stories(REMEMBERED)
        self._sizes: dict[str, int] = {}  # of pages that are gathered
        self._due_at = NEVER

    def take(self, new: NewPages, now: float) -> Iterator[Supersession]:
        """What is to be superseded is so at once: it must not be pushed meanwhile."""
        for result in new.results:
            record = msgspec.json.decode(result.payload)
            for field in new.attachments:
                attachment = _attachment(record.get(field))
                if attachment is not None:
                    self._gather(attachment, new.subscriptions, now)
                    key = [record.get(name) for name in new.keys]
                    if key and None not in key:
                        story = new.channel, field, msgspec.json.encode(key)
                        yield from self._supersede(story, attachment.id, result.created_at)

    def due(self, now: float) -> list[Announced]:
        """Those that were gathered for long enough."""
        if now < self._due_at:
            return []
        sizes, self._sizes, self._due_at = self._sizes, {}, NEVER
        return [
            Announced(page, size_bytes, self._matched.get(page, 1))
            for page, size_bytes in sizes.items()
        ]

    def remember(self, page: str, subscriptions: int = 0) -> None:
        """So many more of our subscriptions matched it. Of pages that were not heard of for long
        and are not here, nothing is known any more."""
        self._matched[page] = self._matched.pop(page, 0) + subscriptions
        while len(self._matched) > REMEMBERED + len(self._cache):
            oldest, count = self._matched.popitem(last=False)
            if oldest in self._cache:
                self._matched[oldest] = count
            else:
                self._cache.remove(oldest)

    def forget_store(self) -> None:
        """Subscriptions and versions of another store's results do not count."""
        self._matched = OrderedDict.fromkeys(self._matched, 0)
        self._stories = Stories(REMEMBERED)
        self._sizes, self._due_at = {}, NEVER

    def _gather(self, attachment: Attachment, subscriptions: int, now: float) -> None:
        if not self._sizes:
            self._due_at = now + GATHER_S
        self._sizes[attachment.id] = attachment.size
        self.remember(attachment.id, subscriptions)

    def _supersede(
        self, story: tuple[str, str, bytes], page: str, made_at: float
    ) -> Iterator[Supersession]:
        outdated = self._stories.tell(story, page, made_at)
        if outdated != page and self._cache.is_superseded(page):
            yield Supersession(page, False)
        if outdated is not None:
            yield Supersession(outdated, True)


def _attachment(value: object) -> Attachment | None:
    """None: queries may put anything where an attachment belongs."""
    try:
        attachment = msgspec.convert(value, Attachment | None)
    except msgspec.ValidationError:
        return None
    if attachment is None or not is_attachment_id(attachment.id) or attachment.size < 0:
        return None
    return attachment
