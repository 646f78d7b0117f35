-- Long exchanges are stored in legs, each with a row of its own. What is stored so far is one leg each: its headline names none
-- that it continues. An exchange that is open now is cut from its next round on.

-- The version of the summary when exchanges left the window: contexts show that one until another covers what left.
ALTER TABLE evictions ADD COLUMN version INTEGER;

-- The view `exchanges` again, which now says what a leg continues. All else, triggers too, is word for word that of migration 21.
DROP VIEW exchanges;
CREATE VIEW exchanges AS
  SELECT e.exchange AS id, e.agent_id, e.first_seq AS start_msg_id, e.last_seq AS end_msg_id,
         e.tokens AS token_count, e.opened_at AS created_at,
         CASE WHEN e.set_aside_at IS NULL AND e.exchange < a.first_exchange AND e.exchange IS NOT a.preamble_exchange
              THEN (SELECT max((SELECT max(v.evicted_at) FROM evictions v WHERE v.agent_id = e.agent_id
                      AND length(CAST(v.through_exchange - v.from_exchange AS text)) = d.column1
                      AND v.from_exchange BETWEEN e.exchange - d.column2 AND e.exchange AND v.through_exchange >= e.exchange))
                    FROM (VALUES (1, 9), (2, 99), (3, 999), (4, 9999), (5, 99999), (6, 999999), (7, 9999999), (8, 99999999)) AS d)
              END AS evicted_at,
         e.set_aside_at IS NULL AND (e.exchange >= a.first_exchange OR e.exchange IS a.preamble_exchange)
           AS in_sliding_window,
         e.role, e.state, e.session AS session_id, e.set_aside_at,
         CASE WHEN json_valid(e.headline) THEN json_extract(e.headline, '$.continues') END AS continues
  FROM exchange_log e JOIN agents a ON a.agent_id = e.agent_id;

CREATE TRIGGER exchanges_insert INSTEAD OF INSERT ON exchanges BEGIN
  SELECT RAISE(ABORT, 'exchanges are made by recapd: insert into messages'); END;
CREATE TRIGGER exchanges_update INSTEAD OF UPDATE ON exchanges BEGIN
  SELECT RAISE(ABORT, 'exchanges are made by recapd and can only be read'); END;
CREATE TRIGGER exchanges_delete INSTEAD OF DELETE ON exchanges BEGIN
  SELECT RAISE(ABORT, 'exchanges are made by recapd and can only be read'); END;

-- The view `agent_pending` again, whose digests now say what a leg continues, as `Exchange::digest` does. All else, triggers too,
-- is word for word that of migration 20.
DROP VIEW agent_pending;
CREATE VIEW agent_pending AS
  SELECT e.agent_id, e.exchange AS exchange_id,
         CASE e.state WHEN 'interrupted' THEN '(interrupted) ' ELSE '' END
         || coalesce(CASE WHEN json_valid(e.headline) THEN '(continues #' || json_extract(e.headline, '$.continues') || ') ' END, '')
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
