-- What models cost in a day, updates that wait for the next one, and items to be condensed again.

-- Until when, and for which limit, an update is paused; NULL: it isn't. A claim takes both back.
ALTER TABLE summary_update_queue ADD COLUMN paused_until INTEGER;
ALTER TABLE summary_update_queue ADD COLUMN paused_for TEXT;
CREATE INDEX summary_update_queue_paused ON summary_update_queue (paused_until) WHERE paused_until IS NOT NULL;

-- The spending of a day: of one agent, and of all.
CREATE INDEX update_runs_spent_agent ON update_runs
  (agent_id, finished_at, model_calls, input_tokens, output_tokens, cost_microusd) WHERE model_calls > 0;
CREATE INDEX update_runs_spent ON update_runs
  (finished_at, model_calls, input_tokens, output_tokens, cost_microusd) WHERE model_calls > 0;

-- Items that stand in for a model's, while they are in the document.
CREATE INDEX summary_items_revisit ON summary_items (agent_id)
  WHERE provisional = 1 AND removed_version IS NULL AND dropped_version IS NULL;
