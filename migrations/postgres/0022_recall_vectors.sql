-- Recall's second list: what an embedding model makes of messages, if `recall.embeddings` names one. The daemon fills it in the background.

CREATE TABLE recall_vectors (
  agent_id text COLLATE "C" NOT NULL REFERENCES agents (agent_id) DEFERRABLE,
  seq      bigint NOT NULL,
  exchange bigint NOT NULL,
  kind     text   NOT NULL,
  said_at  timestamptz NOT NULL,
  model    text COLLATE "C" NOT NULL,
  vector   bytea  NOT NULL,                         -- one signed byte per dimension
  PRIMARY KEY (agent_id, seq)
);

-- How far an agent's messages have been given to which model.
CREATE TABLE recall_vector_marks (
  agent_id      text COLLATE "C" NOT NULL PRIMARY KEY REFERENCES agents (agent_id) DEFERRABLE,
  model         text COLLATE "C" NOT NULL,
  dimensions    bigint NOT NULL,
  through_seq   bigint NOT NULL,
  claimed_until bigint NOT NULL                     -- milliseconds since 1970; until then one daemon works on the next messages
);

-- What was said is kept out of the planner's statistics, which forgetting doesn't reach.
ALTER TABLE recall_vectors ALTER vector SET STATISTICS 0;
