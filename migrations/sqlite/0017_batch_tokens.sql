-- What a question in a batch takes: until its answer is there, what is expected; then what the provider billed. So does
-- `cost_microusd`, which held the latter alone. NULL: an earlier version wrote it down, or nothing came back.
ALTER TABLE batch_requests ADD COLUMN tokens INTEGER;
-- What no run has told counts against the limits of a day.
CREATE INDEX batch_requests_unaccounted ON batch_requests (queued_at)
  WHERE accounted_at IS NULL AND state IN ('waiting', 'out', 'answered');
