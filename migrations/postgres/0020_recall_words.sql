-- Recall by stems, ranked by each agent's own archive: the same rows as on SQLite. The daemon indexes what is stored again, in the
-- background; until then a search says how many messages it didn't look at.

DROP TABLE message_words;
DELETE FROM recall_marks;
INSERT INTO recall_pending (agent_id) SELECT agent_id FROM agents ON CONFLICT (agent_id) DO NOTHING;

-- The messages of a block: a run of an agent's message numbers.
CREATE TABLE recall_blocks (
  agent_id text COLLATE "C" NOT NULL REFERENCES agents (agent_id) DEFERRABLE,
  block    bigint NOT NULL,                         -- message number / 4,096
  messages bigint NOT NULL,                         -- those with words
  words    bigint NOT NULL,                         -- of all of them
  entries  bytea  NOT NULL,                         -- number, role, words, exchange and time of each
  PRIMARY KEY (agent_id, block)
);

-- Which messages of a block have a stem.
CREATE TABLE recall_words (
  agent_id text COLLATE "C" NOT NULL REFERENCES agents (agent_id) DEFERRABLE,
  block    bigint NOT NULL,
  stem     text COLLATE "C" NOT NULL,
  messages bigint NOT NULL,                         -- how many
  postings bytea  NOT NULL,                         -- number of each, and how often it has the stem
  PRIMARY KEY (agent_id, block, stem)
) WITH (fillfactor = 80);

-- What was said is kept out of the planner's statistics, which forgetting doesn't reach.
ALTER TABLE recall_words ALTER stem SET STATISTICS 0, ALTER postings SET STATISTICS 0;
ALTER TABLE recall_blocks ALTER entries SET STATISTICS 0;
