-- Lineage: clear, mark, rewind, fork.

ALTER TABLE agents ADD COLUMN preamble_exchange INTEGER;  -- the running session's preamble; NULL: none yet
UPDATE agents SET preamble_exchange = 0
  WHERE EXISTS (SELECT 1 FROM exchange_log e WHERE e.agent_id = agents.agent_id AND e.exchange = 0);

-- The marks one can go back to. A clear and a rewind to an earlier mark take them away; their messages stay.
CREATE TABLE marks (
  agent_id             TEXT    NOT NULL REFERENCES agents (agent_id),
  mark                 INTEGER NOT NULL,             -- larger is newer
  label                TEXT,                         -- NULL: an unnamed one
  exchange             INTEGER NOT NULL,             -- where it stands
  first_exchange       INTEGER NOT NULL,             -- where the window began then
  tokens_before_window INTEGER NOT NULL,
  PRIMARY KEY (agent_id, mark)
) STRICT, WITHOUT ROWID;
CREATE INDEX marks_label ON marks (agent_id, label, mark) WHERE label IS NOT NULL;

-- The message of the rewind that wrote the version; NULL: an update wrote it.
ALTER TABLE summary_versions ADD COLUMN rewind_seq INTEGER;

-- A forked agent's own messages are numbered from behind those of the agent it came from, and one more, so that none of
-- them follows an inherited exchange and could join it.
ALTER TABLE agents ADD COLUMN fork_seq INTEGER NOT NULL DEFAULT 0;
-- Whose item this is a copy of, number by number, as of a fork; NULL: the agent's own.
ALTER TABLE summary_items ADD COLUMN source_agent_id TEXT;
