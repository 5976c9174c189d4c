"""Up to which sequence of the cluster this broker has heard everything, and when to ask again.

It asks when no notice has come for a while, when one is missing, and at times in any case. Only an
answer to "what is new since" moves the sequence forward: notices may have been lost in
between. It moves back when something was attached whose news may have passed by unheard.
"""

from __future__ import annotations

from tocsin.broker.machine.effects import AskNews, Effect
from tocsin.broker.machine.events import QueryToken

NEVER = float("inf")
PUT_OFF_AT_MOST = 10  # periods, for as long as each notice follows the one before


class News:
    def __init__(self, poll_s: float) -> None:
        self.sequence: int | None = None  # None: nothing was loaded yet
        self._poll_s = poll_s
        self._due_at = NEVER
        self._asked_at = -NEVER
        self._number: int | None = None  # of the last notice
        self._waited_for = False  # what notices do not tell
        self._asked: QueryToken | None = None  # one question at a time
        self._again_from: int | None = None  # the question under way began too late
        self._attached_early = False  # before anything was loaded

    def start(self, sequence: int, now: float) -> None:
        known = sequence if self.sequence is None else self.sequence
        self.sequence = 0 if self._attached_early else min(known, sequence)
        self._attached_early = False
        self.again_from(self.sequence)
        self.soon(now)

    def soon(self, now: float) -> None:
        self._due_at = min(self._due_at, now)

    def noticed(self, number: int | None, now: float) -> None:
        """A notice has come. None is missing before one that follows the last: there is nothing to
        ask for yet. Older clusters do not number them."""
        last, self._number = self._number, number
        if number is None or last is None or number == last:
            return
        if number != last + 1:
            self.soon(now)
        elif self._due_at > now and not self._waited_for:
            latest = self._asked_at + PUT_OFF_AT_MOST * self._poll_s
            self._due_at = max(self._due_at, min(now + self._poll_s, latest))

    def again_from(self, sequence: int | None) -> None:
        """What happened after `sequence` must be told (again). None: all that did, since whoever
        asked knew nothing yet."""
        if self.sequence is None:
            self._attached_early = True
            return
        since = 0 if sequence is None else sequence
        self._waited_for = True
        self.sequence = min(self.sequence, since)
        if self._asked is not None:
            known = self._again_from
            self._again_from = since if known is None else min(known, since)

    def ask(self, event: int, now: float) -> list[Effect]:
        if self._asked is not None or now < self._due_at or self.sequence is None:
            return []
        self._asked = QueryToken(event, self.sequence)
        self._asked_at = now
        self._waited_for = False
        self._due_at = now + self._poll_s
        return [AskNews(self.sequence)]

    def answered(self) -> QueryToken | None:
        """The question that is being answered; the next one may be asked."""
        asked, self._asked = self._asked, None
        return asked

    def heard(self, sequence: int) -> None:
        """Everything up to `sequence` was heard, but for what must be told again."""
        again, self._again_from = self._again_from, None
        self.sequence = sequence if again is None else min(sequence, again)

    def failed(self, now: float) -> None:
        self._asked = self._again_from = None
        self._due_at = now + self._poll_s
