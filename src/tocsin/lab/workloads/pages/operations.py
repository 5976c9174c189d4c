"""What happens at one page cache, in order: pages published, requested, superseded, renewed.

Pages are numbers from 0 on; whoever made the operations knows their names.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PUBLISH, BROWSE, NOTIFIED, SUPERSEDED, RENEWED = range(5)
"""A request is browsing, or a notification led to it. A page that was superseded is renewed when it
is the newest version of a story again."""


@dataclass(frozen=True, slots=True)
class Operations:
    kind: NDArray[np.uint8]
    page: NDArray[np.int32]
    size_bytes: NDArray[np.int64]
    subscriptions: NDArray[np.int32]  # of a publication
    pages: int  # how many different ones

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def requests(self) -> int:
        return int(np.isin(self.kind, (BROWSE, NOTIFIED)).sum())

    @property
    def requested_bytes(self) -> int:
        """Of the different pages that are requested at all."""
        requested = np.isin(self.kind, (BROWSE, NOTIFIED))
        _, at = np.unique(self.page[requested], return_index=True)
        return int(self.size_bytes[requested][at].sum())
