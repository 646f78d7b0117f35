-- What concerns the whole of a large agent is done in pieces, each a transaction of its own; what is left to do stands here, so
-- that it goes on after a crash.

-- From this exchange on the running totals (tokens_before) are still to be reckoned anew; its own is right. NULL: all are right.
ALTER TABLE agents ADD COLUMN totals_from bigint;
-- The agent is being deleted since then: nobody sees it any more, and its name isn't free yet.
ALTER TABLE agents ADD COLUMN deleted_at timestamptz;
CREATE INDEX agents_totals  ON agents (agent_id) WHERE totals_from IS NOT NULL;
CREATE INDEX agents_deleted ON agents (agent_id) WHERE deleted_at IS NOT NULL;

-- What is to be forgotten and isn't yet: messages of an exchange, as they were numbered when it was asked for.
CREATE TABLE forgettings (
  agent_id        text COLLATE "C" NOT NULL REFERENCES agents (agent_id) DEFERRABLE, -- who names it
  exchange        bigint      NOT NULL,
  first_seq       bigint      NOT NULL,
  last_seq        bigint      NOT NULL,
  source_agent_id text COLLATE "C" NOT NULL,           -- whose messages they are
  told            boolean     NOT NULL,              -- whether a summary may tell of it: no preamble
  asked_at        timestamptz NOT NULL,
  PRIMARY KEY (agent_id, exchange, first_seq, last_seq)
);
