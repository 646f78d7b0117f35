-- Who is paused, or waits for the answer of a batch, is in nobody's way: those rows aren't counted as ahead in a project.
DROP INDEX summary_update_queue_project;
CREATE INDEX summary_update_queue_project
  ON summary_update_queue (project_id, priority, parked_at, paused_until, deferred_at)
  WHERE project_id IS NOT NULL AND parked_at IS NULL AND paused_until IS NULL AND deferred_at IS NULL;

-- What appends under an `Idempotency-Key` were made of, so that the key of one is known from that of another, also after a
-- restart: `digest` is the SHA-256 of the request's body in hexadecimal digits.
CREATE TABLE idempotency_keys (
  agent_id TEXT    NOT NULL REFERENCES agents (agent_id),
  key      TEXT    NOT NULL CHECK (length(key) BETWEEN 1 AND 200),
  digest   TEXT    NOT NULL CHECK (length(digest) = 64),
  used_at  INTEGER NOT NULL,
  PRIMARY KEY (agent_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_keys_used ON idempotency_keys (used_at);
