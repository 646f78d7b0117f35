-- The view `agent_pending` again: its digests didn't say how often tools had failed, nor that an exchange was interrupted, as
-- `Exchange::digest` does. All else, triggers too, is word for word that of migration 18.
DROP VIEW agent_pending;
CREATE VIEW agent_pending AS
  SELECT e.agent_id, e.exchange AS exchange_id,
         CASE e.state WHEN 'interrupted' THEN '(interrupted) ' ELSE '' END
         || coalesce(CASE WHEN json_valid(e.headline) THEN nullif(substr(
           coalesce(' → ' || nullif(json_extract(e.headline, '$.title'), ''), '')
           || coalesce(' → ' || nullif(ltrim(coalesce((SELECT group_concat(called, ', ') FROM
                (SELECT json_extract(t.value, '$[0]') || CASE json_extract(t.value, '$[1]') WHEN 1 THEN ''
                        ELSE ' ×' || json_extract(t.value, '$[1]') END AS called
                 FROM json_each(e.headline, '$.tools') t ORDER BY t.key)), '')
                || coalesce(' (' || nullif(json_extract(e.headline, '$.failures'), 0) || ' failed)', '')), ''), '')
           || coalesce(' → ' || nullif(json_extract(e.headline, '$.answer'), ''), ''), 4), '') END, '(no text)') AS digest,
         e.tokens AS token_count, e.opened_at AS started_at, e.last_at AS ended_at
  FROM summaries s JOIN agents a ON a.agent_id = s.agent_id
  JOIN exchange_log e ON e.agent_id = a.agent_id
                     AND e.exchange > coalesce(s.held_through, a.summarized_through) AND e.exchange < a.first_exchange
  WHERE e.set_aside_at IS NULL AND e.role = 'exchange';

CREATE TRIGGER agent_pending_insert INSTEAD OF INSERT ON agent_pending BEGIN
  SELECT RAISE(ABORT, 'what is pending is told by recapd and can only be read'); END;
CREATE TRIGGER agent_pending_update INSTEAD OF UPDATE ON agent_pending BEGIN
  SELECT RAISE(ABORT, 'what is pending is told by recapd and can only be read'); END;
CREATE TRIGGER agent_pending_delete INSTEAD OF DELETE ON agent_pending BEGIN
  SELECT RAISE(ABORT, 'what is pending is told by recapd and can only be read'); END;
