"""Models that are served, whatever the protocol: versions, queues, batches, statistics, shared memory."""
