-- Fills an empty database with agents as they are after some work, without a client: `scale.agents` agents of 8 messages,
-- and a few that have a fifth of all messages to themselves. Ten messages an agent, as a mean.
--
-- Exchanges have four messages of 100 tokens. Of most agents the first one is summarised and the second is the window;
-- every tenth has the first one pending, and a row in the queue unless its number ends in 00; half of the rows back off.
-- The first 2000 and the long ones belong to one project.
-- The long ones have a window of a hundred exchanges, three pending ones, an item for every hundred exchanges and an eviction
-- for every ten.
SET session_replication_role = replica;
SET synchronous_commit = off;

CREATE TEMP TABLE sizes AS
  SELECT agents, long_agents, 2 * agents / long_agents / 4 AS long_exchanges, timestamptz '2026-01-01 00:00:00Z' AS began
  FROM (SELECT agents, greatest(1, agents / 50000) AS long_agents
        FROM (SELECT current_setting('scale.agents')::bigint AS agents) given) counted;

CREATE TEMP TABLE lives AS
  SELECT 'agent-' || lpad(n::text, 8, '0') COLLATE "C" AS agent_id, n, CASE WHEN n <= 2000 THEN 'crowd' END COLLATE "C" AS project_id, 2::bigint AS exchanges, 2::bigint AS first_exchange,
         CASE WHEN n % 10 = 0 THEN 0 ELSE 1 END::bigint AS summarized_through
  FROM sizes, generate_series(1, agents) AS n
  UNION ALL
  SELECT 'long-' || lpad(n::text, 4, '0'), n, 'crowd', long_exchanges, long_exchanges - 99, long_exchanges - 103
  FROM sizes, generate_series(1, long_agents) AS n;

INSERT INTO agents (agent_id, project_id, created_at, updated_at, last_seq, last_exchange, newest_exchange, last_item, last_eviction,
                    first_exchange, tokens_before_window, summarized_through, pending_since, budget_tokens)
  SELECT agent_id, project_id, began, began, 4 * exchanges, exchanges, exchanges, 1, (summarized_through + 9) / 10 + 1, first_exchange,
         400 * (first_exchange - 1), summarized_through, CASE WHEN summarized_through < first_exchange - 1 THEN began + n * interval '1 ms' END, 400
  FROM lives, sizes;

INSERT INTO sessions (agent_id, session, first_exchange, opened_at) SELECT agent_id, 1, 1, began FROM lives, sizes;

INSERT INTO message_log (agent_id, seq, exchange, kind, format, payload, tokens, count_method, said_at, received_at)
  SELECT agent_id, seq, (seq + 3) / 4, CASE WHEN seq % 4 = 1 THEN 'user' ELSE 'assistant' END, 'native',
         '{"kind":"' || CASE WHEN seq % 4 = 1 THEN 'user' ELSE 'assistant' END || '","content":"Message ' || seq || '"}',
         100, 'exact', began + seq * interval '1 s', began + seq * interval '1 s'
  FROM sizes, lives, generate_series(1, 4 * exchanges) AS seq;

INSERT INTO exchange_log (agent_id, exchange, role, session, source_agent_id, first_seq, last_seq, messages, tokens,
                          tokens_before, state, opened_at, last_at, headline)
  SELECT agent_id, exchange, 'exchange', 1, agent_id, 4 * exchange - 3, 4 * exchange, 4, 400, 400 * (exchange - 1), 'closed',
         began + (4 * exchange - 3) * interval '1 s', began + 4 * exchange * interval '1 s',
         '{"title":"Message ' || 4 * exchange - 3 || '","tools":[],"answer":"Message ' || 4 * exchange || '"}'
  FROM sizes, lives, generate_series(1, exchanges) AS exchange;

INSERT INTO evictions (agent_id, eviction, from_exchange, through_exchange, tokens, evicted_at)
  SELECT agent_id, step, 10 * step - 9, least(10 * step, summarized_through), 400 * (least(10 * step, summarized_through) - 10 * step + 10),
         began + step * interval '1 min'
  FROM lives, sizes, generate_series(1, (summarized_through + 9) / 10) AS step
  UNION ALL
  SELECT agent_id, (summarized_through + 9) / 10 + 1, summarized_through + 1, first_exchange - 1,
         400 * (first_exchange - 1 - summarized_through), began + ((summarized_through + 9) / 10 + 1) * interval '1 min'
  FROM lives, sizes WHERE summarized_through < first_exchange - 1;

INSERT INTO summary_update_queue (agent_id, project_id, queued_at, visible_at, due_at)
  SELECT agent_id, project_id, began, visible_at, visible_at + interval '2 min'
  FROM (SELECT agent_id, project_id, began, began + n * interval '1 ms' + CASE WHEN n % 20 = 0 THEN interval '100 years' ELSE interval '0' END
               AS visible_at
        FROM lives, sizes WHERE summarized_through < first_exchange - 1 AND n % 100 <> 0) AS due;

INSERT INTO summaries (agent_id, version, content, token_count, updated_at)
  SELECT agent_id, 1, '- what was said in it', 8, began + interval '2 min' FROM lives, sizes WHERE summarized_through > 0
  UNION ALL SELECT agent_id, 0, '', 0, began FROM lives, sizes WHERE summarized_through = 0;

INSERT INTO summary_versions (agent_id, version, lease_token, covers_after, covers_through, exchanges, path, content,
                              token_count, as_of, created_at)
  SELECT agent_id, 1, row_number() OVER (), 0, summarized_through, summarized_through, 'append', '- what was said in it', 8,
         began + interval '2 min', began + interval '2 min'
  FROM lives, sizes WHERE summarized_through > 0;

CREATE TEMP TABLE told AS
  SELECT agent_id, item, 100 * item - 99 AS first_exchange, least(100 * item, summarized_through) AS last_exchange
  FROM lives, generate_series(1, (summarized_through + 99) / 100) AS item;
INSERT INTO summary_items (agent_id, item, added_version, importance, origin, provisional, started_at, ended_at, source_tokens,
                           text, brief, gist)
  SELECT agent_id, item, 1, 'feature', 'model', false, began, began + interval '1 min', 400, 'what was said in it', 'was said', 'said'
  FROM told, sizes;
INSERT INTO summary_item_ranges (agent_id, item, first_exchange, last_exchange) SELECT * FROM told;
UPDATE agents SET last_item = made.items
  FROM (SELECT agent_id, max(item) AS items FROM told GROUP BY agent_id HAVING max(item) > 1) AS made
  WHERE agents.agent_id = made.agent_id;

SELECT setval('lease_token', 10 * agents) FROM sizes;
DROP TABLE told, lives, sizes;
RESET session_replication_role;
RESET synchronous_commit;
