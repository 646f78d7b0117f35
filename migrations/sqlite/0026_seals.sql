-- Seals: what is stored can be told from what was changed past recapd. docs/operations.md says what `recapd verify` proves by
-- them. What was stored before has none; the keeper makes them in the background.

-- Of the agent's messages up to chained_through: a hash of the link before, and of the next message's seal.
ALTER TABLE agents ADD COLUMN chain TEXT;            -- NULL: of no message
ALTER TABLE agents ADD COLUMN chained_through INTEGER NOT NULL DEFAULT 0;
UPDATE agents SET chained_through = fork_seq;

-- A hash of the salt and of all that never changes. A message that is forgotten loses its salt, so that the seal tells nothing.
ALTER TABLE message_log ADD COLUMN salt TEXT;
ALTER TABLE message_log ADD COLUMN seal TEXT;        -- NULL: it is still to be made
CREATE INDEX message_log_unsealed ON message_log (agent_id, seq) WHERE seal IS NULL;

-- A hash of what never changes of the row but when something is forgotten. NULL: it is still to be made.
ALTER TABLE exchange_log     ADD COLUMN digest TEXT;
ALTER TABLE evictions        ADD COLUMN digest TEXT;
ALTER TABLE summary_items    ADD COLUMN digest TEXT;
ALTER TABLE summary_facts    ADD COLUMN digest TEXT;
ALTER TABLE forks            ADD COLUMN digest TEXT;
ALTER TABLE summary_versions ADD COLUMN digest TEXT; -- empty: the text was removed
-- The digests of the items and facts that the version's document was composed of, in one; empty: not known any more.
ALTER TABLE summary_versions ADD COLUMN made_of TEXT;
CREATE INDEX evictions_unsealed        ON evictions        (agent_id)          WHERE digest IS NULL;
CREATE INDEX forks_unsealed            ON forks            (agent_id)          WHERE digest IS NULL;
CREATE INDEX summary_facts_unsealed    ON summary_facts    (agent_id, fact)    WHERE digest IS NULL;
CREATE INDEX summary_items_unsealed    ON summary_items    (agent_id, item)    WHERE digest IS NULL;
CREATE INDEX summary_versions_unsealed ON summary_versions (agent_id, version) WHERE digest IS NULL;

-- Rows of that table from before then may have been deleted because of their age; all later ones are there.
CREATE TABLE prunings (
  table_name TEXT    NOT NULL PRIMARY KEY,
  before_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO prunings (table_name, before_at)
  SELECT 'update_runs', CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) WHERE EXISTS (SELECT 1 FROM agents);
