"""The thread that consumes a dataset, and the shutdown of Ray under it."""

from __future__ import annotations

import threading

import ray
import ray.data

_GRACE_S = 10.0


class Consumer(threading.Thread):
    """Consumes a dataset to its end; `failure` is the exception that stopped it, if any."""

    def __init__(self, dataset: ray.data.Dataset) -> None:
        """Keep the dataset; `start` begins to consume it."""
        super().__init__(name="ray-data", daemon=True)
        self.failure: BaseException | None = None
        self._dataset = dataset

    def run(self) -> None:
        """Consume every batch."""
        try:
            for _ in self._dataset.iter_batches(batch_size=None, batch_format="pyarrow"):
                pass
        except BaseException as error:  # the driver's thread raises it
            self.failure = error


def shut_down(consumer: Consumer | None) -> None:
    """Shut Ray down, then join the consumer that still waited for it, as after an interrupt.

    An interpreter that exits while the thread runs would abort.
    """
    ray.shutdown()
    if consumer is not None and consumer.is_alive():
        consumer.join(_GRACE_S)
