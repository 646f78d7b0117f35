-- Counts: what providers' reports say about estimates, and messages counted again for another model.

-- How far estimates are off, per provider and model: the last samples.
CREATE TABLE calibrations (
  provider   TEXT    NOT NULL,
  model      TEXT    NOT NULL,
  learned    INTEGER NOT NULL,                       -- larger learned later
  samples    TEXT    NOT NULL,                       -- JSON, oldest first: [[estimated_tokens, reported_tokens], ...]
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (provider, model)
) STRICT, WITHOUT ROWID;

-- What a message costs an agent since its model changed. The message's row keeps the count of its arrival: it is
-- immutable, and a forked agent may share it and run another model.
CREATE TABLE recounts (
  agent_id     TEXT    NOT NULL REFERENCES agents (agent_id),
  seq          INTEGER NOT NULL,
  tokens       INTEGER NOT NULL CHECK (tokens >= 0),
  count_method TEXT    NOT NULL,
  PRIMARY KEY (agent_id, seq)
) STRICT, WITHOUT ROWID;

-- Exchanges before this one are still to be counted again, down to those the summary covers; NULL: none are.
ALTER TABLE agents ADD COLUMN recount_before INTEGER;
CREATE INDEX agents_recount ON agents (agent_id) WHERE recount_before IS NOT NULL;
