-- When an exchange left the window is looked up by its number: all of its agent's evictions were read for each exchange, and in
-- the view `messages` for each message. Those whose lengths have as many digits are looked through from as far back as they
-- can reach. The last one that begins before isn't always it: after a boundary that moved back, ranges lie over each other.
CREATE INDEX evictions_reach
  ON evictions (agent_id, length(CAST(through_exchange - from_exchange AS text)), from_exchange);

-- The views again, which so keep their triggers and rights. All else is word for word that of migration 2, but that of several
-- evictions the latest time is told, as over HTTP.
CREATE OR REPLACE VIEW messages WITH (security_barrier) AS
  SELECT m.seq AS id, e.agent_id,
         CASE m.kind WHEN 'tool_call' THEN 'assistant' WHEN 'tool_result' THEN 'tool' ELSE m.kind END AS role,
         CASE WHEN m.forgotten_at IS NULL THEN recapd_message_text(m.payload) END AS content,
         coalesce(r.tokens, m.tokens) AS token_count,
         m.said_at AS created_at,
         e.set_aside_at IS NULL AND (e.exchange >= a.first_exchange OR coalesce(e.exchange = a.preamble_exchange, false))
           AS in_sliding_window,
         CASE WHEN e.set_aside_at IS NULL AND e.exchange < a.first_exchange
                   AND e.exchange IS DISTINCT FROM a.preamble_exchange
              THEN (SELECT max((SELECT max(v.evicted_at) FROM evictions v WHERE v.agent_id = e.agent_id
                      AND length(CAST(v.through_exchange - v.from_exchange AS text)) = d.column1
                      AND v.from_exchange BETWEEN e.exchange - d.column2 AND e.exchange AND v.through_exchange >= e.exchange))
                    FROM (VALUES (1, 9), (2, 99), (3, 999), (4, 9999), (5, 99999), (6, 999999), (7, 9999999), (8, 99999999)) AS d)
              END AS evicted_at,
         e.exchange AS exchange_id,
         m.kind, m.format, m.speaker, m.client_id, e.session AS session_id, e.set_aside_at
  FROM exchange_log e JOIN agents a ON a.agent_id = e.agent_id
  JOIN message_log m ON m.agent_id = e.source_agent_id AND m.seq BETWEEN e.first_seq AND e.last_seq
                    AND m.exchange = e.exchange
  LEFT JOIN recounts r ON r.agent_id = e.agent_id AND r.seq = m.seq
  WHERE (SELECT recapd_scope()) = '*' OR e.agent_id = (SELECT recapd_scope());

CREATE OR REPLACE VIEW exchanges WITH (security_barrier) AS
  SELECT e.exchange AS id, e.agent_id, e.first_seq AS start_msg_id, e.last_seq AS end_msg_id,
         e.tokens AS token_count, e.opened_at AS created_at,
         CASE WHEN e.set_aside_at IS NULL AND e.exchange < a.first_exchange
                   AND e.exchange IS DISTINCT FROM a.preamble_exchange
              THEN (SELECT max((SELECT max(v.evicted_at) FROM evictions v WHERE v.agent_id = e.agent_id
                      AND length(CAST(v.through_exchange - v.from_exchange AS text)) = d.column1
                      AND v.from_exchange BETWEEN e.exchange - d.column2 AND e.exchange AND v.through_exchange >= e.exchange))
                    FROM (VALUES (1, 9), (2, 99), (3, 999), (4, 9999), (5, 99999), (6, 999999), (7, 9999999), (8, 99999999)) AS d)
              END AS evicted_at,
         e.set_aside_at IS NULL AND (e.exchange >= a.first_exchange OR coalesce(e.exchange = a.preamble_exchange, false))
           AS in_sliding_window,
         e.role, e.state, e.session AS session_id, e.set_aside_at
  FROM exchange_log e JOIN agents a ON a.agent_id = e.agent_id
  WHERE (SELECT recapd_scope()) = '*' OR e.agent_id = (SELECT recapd_scope());
