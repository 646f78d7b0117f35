-- Batches at a provider: questions that may wait are asked together, at half the price.

-- A batch is written down before it is sent, so that a crash leaves a row to look for at the provider.
CREATE TABLE provider_batches (
  batch       INTEGER PRIMARY KEY,
  name        TEXT    NOT NULL UNIQUE,               -- what the provider is told to call it
  provider    TEXT    NOT NULL,
  model       TEXT    NOT NULL,
  state       TEXT    NOT NULL CHECK (state IN ('intent', 'submitted', 'closed')),
  provider_id TEXT,                                  -- NULL: not known to be made
  requests    INTEGER NOT NULL,
  looks       INTEGER NOT NULL DEFAULT 0,            -- in this state
  next_at     INTEGER NOT NULL,                      -- when to look again
  created_at  INTEGER NOT NULL,
  closed_at   INTEGER,
  error_class TEXT,                                  -- why it was closed without results
  CHECK (state <> 'submitted' OR provider_id IS NOT NULL),
  CHECK ((state = 'closed') = (closed_at IS NOT NULL))
) STRICT;
CREATE INDEX provider_batches_open ON provider_batches (next_at) WHERE state <> 'closed';
CREATE INDEX provider_batches_closed ON provider_batches (closed_at) WHERE state = 'closed';
CREATE UNIQUE INDEX provider_batches_known ON provider_batches (provider, provider_id) WHERE provider_id IS NOT NULL;

-- Each state of a summary is put to a batch at most once: whatever comes of it, after that it is asked about directly.
CREATE TABLE batch_requests (
  agent_id       TEXT    NOT NULL REFERENCES agents (agent_id),
  version        INTEGER NOT NULL,                   -- of the summary, as it was read
  covers_after   INTEGER NOT NULL,
  covers_through INTEGER NOT NULL,
  exchanges      TEXT    NOT NULL,                   -- JSON: the exchanges asked about
  revisited      TEXT    NOT NULL,                   -- JSON: the items to be replaced by the answer, if nothing was pending
  journal_key    TEXT    NOT NULL UNIQUE,            -- its id at the provider
  provider       TEXT    NOT NULL,
  model          TEXT    NOT NULL,
  body           TEXT    NOT NULL,                   -- the request; empty as soon as it isn't needed any more
  state          TEXT    NOT NULL CHECK (state IN ('waiting', 'out', 'answered', 'failed', 'late', 'withdrawn')),
  batch          INTEGER REFERENCES provider_batches (batch),
  queued_at      INTEGER NOT NULL,
  ended_at       INTEGER,
  cost_microusd  INTEGER,                            -- what its answer cost; NULL: none, or the price is not known
  accounted_at   INTEGER,                            -- when a run told what it cost
  error_class    TEXT,
  PRIMARY KEY (agent_id, version, covers_after),
  CHECK ((state IN ('waiting', 'withdrawn')) = (batch IS NULL)),
  CHECK ((state IN ('waiting', 'out')) = (ended_at IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX batch_requests_waiting ON batch_requests (queued_at, agent_id) WHERE state = 'waiting';
CREATE INDEX batch_requests_open ON batch_requests (agent_id) WHERE ended_at IS NULL;
CREATE INDEX batch_requests_batch ON batch_requests (batch) WHERE batch IS NOT NULL;
CREATE INDEX batch_requests_ended ON batch_requests (ended_at) WHERE ended_at IS NOT NULL;

-- A row that waits for a batch's answer: only what is urgent makes it visible earlier. NULL: it doesn't.
ALTER TABLE summary_update_queue ADD COLUMN deferred_at INTEGER;
-- The answer came from a batch: half the price.
ALTER TABLE update_runs ADD COLUMN batched INTEGER NOT NULL DEFAULT 0;
