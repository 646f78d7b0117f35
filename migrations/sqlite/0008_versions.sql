-- Versions: what wrote them, and what a hand may change.

-- Every version that no update wrote begins a life of its own: contexts show it at once.
ALTER TABLE summary_versions ADD COLUMN kind TEXT NOT NULL DEFAULT 'update'
  CHECK (kind IN ('update', 'rewind', 'rollback', 'rebuild', 'edit', 'forget'));
UPDATE summary_versions SET kind = 'rewind' WHERE rewind_seq IS NOT NULL;

-- While a rebuild catches up, `content` is that of this earlier version, which covers through that exchange. NULL: it is
-- that of `version`.
ALTER TABLE summaries ADD COLUMN held_version INTEGER;
ALTER TABLE summaries ADD COLUMN held_through INTEGER;

-- A pinned item stays in the document, in full, before others.
ALTER TABLE summary_items ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1));
-- The number that a fork's copy has where it came from, if not the same.
ALTER TABLE summary_items ADD COLUMN source_item INTEGER;

DROP VIEW agent_summary;
CREATE VIEW agent_summary AS
  SELECT s.agent_id, s.content, coalesce(s.held_version, s.version) AS version, s.token_count, s.updated_at,
         coalesce(s.held_through, a.summarized_through) AS covers_through, a.first_exchange, a.pending_since
  FROM summaries s JOIN agents a ON a.agent_id = s.agent_id;
