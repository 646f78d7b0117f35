-- Recall by stems, ranked by each agent's own archive: the same rows as on PostgreSQL. The daemon indexes what is stored again, in the
-- background; until then a search says how many messages it didn't look at.

DROP TABLE recall_index;
DELETE FROM counters WHERE name = 'recall_unmerged';
UPDATE counters SET value = 0 WHERE name = 'recall_indexed';

-- The messages of a block: a run of an agent's message numbers.
CREATE TABLE recall_blocks (
  agent_id TEXT    NOT NULL REFERENCES agents (agent_id),
  block    INTEGER NOT NULL,                        -- message number / 4,096
  messages INTEGER NOT NULL,                        -- those with words
  words    INTEGER NOT NULL,                        -- of all of them
  entries  BLOB    NOT NULL,                        -- number, role, words, exchange and time of each
  PRIMARY KEY (agent_id, block)
) STRICT, WITHOUT ROWID;

-- Which messages of a block have a stem.
CREATE TABLE recall_words (
  agent_id TEXT    NOT NULL REFERENCES agents (agent_id),
  block    INTEGER NOT NULL,
  stem     TEXT    NOT NULL,
  messages INTEGER NOT NULL,                        -- how many
  postings BLOB    NOT NULL,                        -- number of each, and how often it has the stem
  PRIMARY KEY (agent_id, block, stem)
) STRICT, WITHOUT ROWID;
