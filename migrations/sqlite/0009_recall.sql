-- Recall: full-text search over the archive; and what forgetting leaves behind.

-- Words only: the text itself stands in message_log. A row's id is the message's. `who` is a word for the agent.
CREATE VIRTUAL TABLE recall_index USING fts5(
  who, said, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2'
);
-- A hit counts by what was said, not by who it belongs to.
INSERT INTO recall_index (recall_index, rank) VALUES ('rank', 'bm25(0.0, 1.0)');
INSERT INTO counters VALUES ('recall_indexed', 0);   -- messages up to this id are in the index
INSERT INTO counters VALUES ('recall_unmerged', 0);  -- 1: words of what was forgotten are still in the index's pages

CREATE INDEX agents_parent ON agents (parent_agent_id) WHERE parent_agent_id IS NOT NULL;

ALTER TABLE agents ADD COLUMN forgotten_at INTEGER;           -- when something of it was last forgotten
ALTER TABLE summary_versions ADD COLUMN purged_at INTEGER;    -- its text held what was forgotten, and is gone
