-- Long exchanges are stored in legs, each with a row of its own. What is stored so far is one leg each: its headline names none
-- that it continues. An exchange that is open now is cut from its next round on.

-- The version of the summary when exchanges left the window: contexts show that one until another covers what left.
ALTER TABLE evictions ADD COLUMN version bigint;

-- The first leg of the exchange that a leg continues; NULL for none. What can't be read must not spoil the rows beside it.
CREATE FUNCTION recapd_continues(headline text) RETURNS bigint LANGUAGE plpgsql IMMUTABLE STRICT
  SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (headline::json ->> 'continues')::bigint;
EXCEPTION WHEN OTHERS THEN
  RETURN NULL;
END $$;

-- The view `exchanges` now says what a leg continues. All else is word for word that of migration 13.
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
         e.role, e.state, e.session AS session_id, e.set_aside_at,
         recapd_continues(e.headline) AS continues
  FROM exchange_log e JOIN agents a ON a.agent_id = e.agent_id
  WHERE (SELECT recapd_scope()) = '*' OR e.agent_id = (SELECT recapd_scope());

-- Digests of `agent_pending` now say what a leg continues, as `Exchange::digest` does. All else is word for word that of
-- migration 12.
CREATE OR REPLACE VIEW agent_pending WITH (security_barrier) AS
  SELECT e.agent_id, e.exchange AS exchange_id,
         CASE e.state WHEN 'interrupted' THEN '(interrupted) ' ELSE '' END
         || coalesce('(continues #' || recapd_continues(e.headline) || ') ', '') || recapd_digest(e.headline) AS digest,
         e.tokens AS token_count, e.opened_at AS started_at, e.last_at AS ended_at
  FROM summaries s JOIN agents a ON a.agent_id = s.agent_id
  JOIN exchange_log e ON e.agent_id = a.agent_id
                     AND e.exchange > coalesce(s.held_through, a.summarized_through) AND e.exchange < a.first_exchange
  WHERE e.set_aside_at IS NULL AND e.role = 'exchange'
    AND ((SELECT recapd_scope()) = '*' OR e.agent_id = (SELECT recapd_scope()));
