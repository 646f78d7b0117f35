-- A firing of a schedule is taken before it is made: whoever took it may be killed, or fail. So it is told when it is done,
-- and one that isn't for long is taken again. NULL: not done.
ALTER TABLE schedule_slots ADD COLUMN done_at INTEGER;
UPDATE schedule_slots SET done_at = fired_at;
-- Rows that wait for a batch's answer are looked for again and again.
CREATE INDEX summary_update_queue_deferred ON summary_update_queue (deferred_at) WHERE deferred_at IS NOT NULL;
