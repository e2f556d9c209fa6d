"""Vectors of queries that were asked before: the same text in the same space is the same vector.

A context asks once for memories and once for messages, people repeat their questions, and a vendor
takes 100 ms and money for each. Keys are digests, so that no text is kept longer than its request.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]

MOST = 2_000
"""Vectors of 1,536 numbers take 6 kB each."""


class QueryCache:
    """The vectors of the queries that were asked last, shared by all threads of a process."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._vectors: OrderedDict[tuple[int, bytes], Vector] = OrderedDict()

    def vector(self, space_id: int, text: str, embed: Callable[[], Vector]) -> Vector:
        """Return the text's vector in the space, made by `embed` where it is not at hand; its errors are not kept."""
        key = (space_id, hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest())
        with self._lock:
            if (known := self._vectors.get(key)) is not None:
                self._vectors.move_to_end(key)
                return known
        vector = embed()  # without the lock: a vendor is slow, and two that ask the same at once harm nobody
        with self._lock:
            self._vectors[key] = vector
            while len(self._vectors) > self._most:
                self._vectors.popitem(last=False)
        return vector

    def forget(self) -> None:
        """Drop everything."""
        with self._lock:
            self._vectors.clear()
