-- What concerns the whole of a large agent is done in pieces, each a transaction of its own; what is left to do stands here, so
-- that it goes on after a crash.

-- From this exchange on the running totals (tokens_before) are still to be reckoned anew; its own is right. NULL: all are right.
ALTER TABLE agents ADD COLUMN totals_from INTEGER;
-- The agent is being deleted since then: nobody sees it any more, and its name isn't free yet.
ALTER TABLE agents ADD COLUMN deleted_at INTEGER;
CREATE INDEX agents_totals  ON agents (agent_id) WHERE totals_from IS NOT NULL;
CREATE INDEX agents_deleted ON agents (agent_id) WHERE deleted_at IS NOT NULL;

-- What is to be forgotten and isn't yet: messages of an exchange, as they were numbered when it was asked for.
CREATE TABLE forgettings (
  agent_id        TEXT    NOT NULL REFERENCES agents (agent_id), -- who names it
  exchange        INTEGER NOT NULL,
  first_seq       INTEGER NOT NULL,
  last_seq        INTEGER NOT NULL,
  source_agent_id TEXT    NOT NULL,                  -- whose messages they are
  told            INTEGER NOT NULL CHECK (told IN (0, 1)), -- whether a summary may tell of it: no preamble
  asked_at        INTEGER NOT NULL,
  PRIMARY KEY (agent_id, exchange, first_seq, last_seq)
) STRICT, WITHOUT ROWID;
