"""The thread that draws a dataset to its end, and the end of Ray under it."""

from __future__ import annotations

import threading

import ray
import ray.data

_GRACE_S = 10.0


class Consumer(threading.Thread):
    """Runs a dataset to its end; `failure` is what ended it before."""

    def __init__(self, dataset: ray.data.Dataset) -> None:
        """Start nothing yet."""
        super().__init__(name="ray-data", daemon=True)
        self.failure: BaseException | None = None
        self._dataset = dataset

    def run(self) -> None:
        """Take every batch."""
        try:
            for _ in self._dataset.iter_batches(batch_size=None, batch_format="pyarrow"):
                pass
        except BaseException as error:  # for the driver's thread
            self.failure = error


def shut_down(consumer: Consumer | None) -> None:
    """End Ray, then the consumer that still waited for it, as after an interrupt.

    An interpreter that ends under it is aborted.
    """
    ray.shutdown()
    if consumer is not None and consumer.is_alive():
        consumer.join(_GRACE_S)
