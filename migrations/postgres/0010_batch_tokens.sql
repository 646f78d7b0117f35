-- What was said is kept out of the planner's statistics, which forgetting doesn't reach: also while it waits to be taken
-- in. First, for it may wait for a vacuum and is in nobody's way meanwhile.
ALTER TABLE message_inbox ALTER content SET STATISTICS 0;
-- What a question in a batch takes: until its answer is there, what is expected; then what the provider billed. So does
-- `cost_microusd`, which held the latter alone. NULL: an earlier version wrote it down, or nothing came back.
ALTER TABLE batch_requests ADD COLUMN tokens bigint;
-- What no run has told counts against the limits of a day.
CREATE INDEX batch_requests_unaccounted ON batch_requests (queued_at)
  WHERE accounted_at IS NULL AND state IN ('waiting', 'out', 'answered');
