-- Notes: texts that an agent keeps under names. A version is a message, which holds the text; its number is the version's.
-- What comes from the messages alone; a rewind behind a message takes its row away.
CREATE TABLE notes (
  agent_id        TEXT    NOT NULL REFERENCES agents (agent_id),
  name            TEXT    NOT NULL,
  seq             INTEGER NOT NULL,                  -- the message
  source_agent_id TEXT    NOT NULL,                  -- whose message it is: a fork inherits
  exchange        INTEGER NOT NULL,
  written_at      INTEGER NOT NULL,
  bytes           INTEGER NOT NULL,                  -- of the text
  title           TEXT    NOT NULL,                  -- its first line
  deleted         INTEGER NOT NULL CHECK (deleted IN (0, 1)),
  PRIMARY KEY (agent_id, name, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX notes_exchange ON notes (agent_id, exchange);
