-- Fairness between projects: an agent's row stands behind those of its project that wait already.

-- The agent's project, for counting its rows without a look at the agents; NULL: none.
ALTER TABLE summary_update_queue ADD COLUMN project_id TEXT;
-- How far `due_at` lies behind `visible_at` and the slack of its priority.
ALTER TABLE summary_update_queue ADD COLUMN behind_ms INTEGER NOT NULL DEFAULT 0;
UPDATE summary_update_queue SET project_id = (SELECT a.project_id FROM agents a WHERE a.agent_id = summary_update_queue.agent_id);
-- With all that is looked at, so that counting doesn't read the rows.
CREATE INDEX summary_update_queue_project ON summary_update_queue (project_id, priority, parked_at)
  WHERE project_id IS NOT NULL AND parked_at IS NULL;
