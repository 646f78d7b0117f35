-- Facts say how things stand beside the items, which say what happened. The summary of an agent has none until its next update.
ALTER TABLE agents ADD COLUMN last_fact INTEGER NOT NULL DEFAULT 0;

-- closed_version: settled, replaced or withdrawn, holds no longer. Texts never change but when they are forgotten: what is said
-- otherwise is a fact of its own, and so is one that holds again.
CREATE TABLE summary_facts (
  agent_id           TEXT    NOT NULL REFERENCES agents (agent_id),
  fact               INTEGER NOT NULL,
  added_version      INTEGER NOT NULL,
  closed_version     INTEGER,
  closed_by_exchange INTEGER,                        -- the exchange that ended it; NULL: none, or none that counts any more
  replaced_by        INTEGER,                        -- the fact that holds in its place
  kind               TEXT    NOT NULL,
  text               TEXT    NOT NULL,
  voice              TEXT,                           -- whose words these are; NULL: the summariser's
  speaker            TEXT    NOT NULL,
  since              INTEGER NOT NULL,
  exchange           INTEGER NOT NULL,               -- where it comes from; 0: from an operator
  pinned             INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),
  -- Whose fact this is a copy of, number by number, as of a fork; NULL: the agent's own.
  source_agent_id    TEXT,
  source_fact        INTEGER,                        -- the number that the copy has there, if not the same
  PRIMARY KEY (agent_id, fact)
) STRICT, WITHOUT ROWID;
CREATE INDEX summary_facts_holding ON summary_facts (agent_id, fact)
  WHERE closed_version IS NULL;

-- The facts that hold, for readers by SQL.
CREATE VIEW agent_facts AS
  SELECT agent_id, fact, kind, text, voice, speaker, since, exchange AS exchange_id, pinned
  FROM summary_facts WHERE closed_version IS NULL;

CREATE TRIGGER agent_facts_insert INSTEAD OF INSERT ON agent_facts BEGIN
  SELECT RAISE(ABORT, 'facts are told by recapd and can only be read'); END;
CREATE TRIGGER agent_facts_update INSTEAD OF UPDATE ON agent_facts BEGIN
  SELECT RAISE(ABORT, 'facts are told by recapd and can only be read'); END;
CREATE TRIGGER agent_facts_delete INSTEAD OF DELETE ON agent_facts BEGIN
  SELECT RAISE(ABORT, 'facts are told by recapd and can only be read'); END;
