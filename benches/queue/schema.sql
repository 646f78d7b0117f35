CREATE TABLE counters (name text NOT NULL PRIMARY KEY, value bigint NOT NULL);
INSERT INTO counters VALUES ('lease_token', 0);
CREATE TABLE summary_update_queue (
  agent_id     text        NOT NULL PRIMARY KEY,
  priority     integer     NOT NULL DEFAULT 100,
  reasons      integer     NOT NULL DEFAULT 1,
  queued_at    timestamptz NOT NULL DEFAULT now(),
  visible_at   timestamptz NOT NULL DEFAULT now(),
  due_at       timestamptz NOT NULL DEFAULT now(),
  wake_seq     bigint      NOT NULL DEFAULT 1,
  claimed_wake bigint      NOT NULL DEFAULT 0,
  lease_token  bigint,
  lease_owner  text,
  leased_at    timestamptz,
  attempts     integer     NOT NULL DEFAULT 0,
  crashes      integer     NOT NULL DEFAULT 0,
  last_error   text,
  parked_at    timestamptz,
  revived_at   timestamptz,
  paused_until timestamptz,
  paused_for   text,
  deferred_at  timestamptz,
  processing   boolean     GENERATED ALWAYS AS (lease_token IS NOT NULL) STORED
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX summary_update_queue_claim  ON summary_update_queue (due_at, visible_at) WHERE parked_at IS NULL;
CREATE INDEX summary_update_queue_parked ON summary_update_queue (parked_at) WHERE parked_at IS NOT NULL;
CREATE INDEX summary_update_queue_paused ON summary_update_queue (paused_until) WHERE paused_until IS NOT NULL;
