-- Fairness between projects: an agent's row stands behind those of its project that wait already.

-- The agent's project, for counting its rows without a look at the agents; NULL: none.
ALTER TABLE summary_update_queue ADD COLUMN project_id text COLLATE "C";
-- How far `due_at` lies behind `visible_at` and the slack of its priority.
ALTER TABLE summary_update_queue ADD COLUMN behind_ms bigint NOT NULL DEFAULT 0;
UPDATE summary_update_queue q SET project_id = a.project_id FROM agents a
  WHERE a.agent_id = q.agent_id AND a.project_id IS NOT NULL;
-- With all that is looked at, so that counting doesn't read the rows.
CREATE INDEX summary_update_queue_project ON summary_update_queue (project_id, priority, parked_at)
  WHERE project_id IS NOT NULL AND parked_at IS NULL;
