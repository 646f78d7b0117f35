-- Recall's second list: what an embedding model makes of messages, if `recall.embeddings` names one. The daemon fills it in the background.

CREATE TABLE recall_vectors (
  agent_id TEXT    NOT NULL REFERENCES agents (agent_id),
  seq      INTEGER NOT NULL,
  exchange INTEGER NOT NULL,
  kind     TEXT    NOT NULL,
  said_at  INTEGER NOT NULL,
  model    TEXT    NOT NULL,
  vector   BLOB    NOT NULL,                        -- one signed byte per dimension
  PRIMARY KEY (agent_id, seq)
) STRICT;

-- How far an agent's messages have been given to which model.
CREATE TABLE recall_vector_marks (
  agent_id      TEXT    NOT NULL PRIMARY KEY REFERENCES agents (agent_id),
  model         TEXT    NOT NULL,
  dimensions    INTEGER NOT NULL,
  through_seq   INTEGER NOT NULL,
  claimed_until INTEGER NOT NULL                    -- milliseconds since 1970; until then one daemon works on the next messages
) STRICT, WITHOUT ROWID;
