-- Notes: texts that an agent keeps under names. A version is a message, which holds the text; its number is the version's.
-- What comes from the messages alone; a rewind behind a message takes its row away.
CREATE TABLE notes (
  agent_id        text COLLATE "C" NOT NULL REFERENCES agents (agent_id) DEFERRABLE,
  name            text COLLATE "C" NOT NULL,
  seq             bigint      NOT NULL,              -- the message
  source_agent_id text COLLATE "C" NOT NULL,         -- whose message it is: a fork inherits
  exchange        bigint      NOT NULL,
  written_at      timestamptz NOT NULL,
  bytes           bigint      NOT NULL,              -- of the text
  title           text COLLATE "C" NOT NULL,         -- its first line
  deleted         boolean     NOT NULL,
  PRIMARY KEY (agent_id, name, seq)
);
CREATE INDEX notes_exchange ON notes (agent_id, exchange);

-- What an agent wrote is kept out of the planner's statistics, which forgetting doesn't reach.
ALTER TABLE notes ALTER name SET STATISTICS 0, ALTER title SET STATISTICS 0;
