-- Digests of `agent_pending` didn't say how often tools had failed, nor that an exchange was interrupted. All else is word for
-- word that of migration 11; what is replaced keeps its rights and triggers.

-- An exchange in one line: what `Headline::digest` makes of it. What can't be read must not spoil the rows beside it.
CREATE OR REPLACE FUNCTION recapd_digest(headline text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT
  SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  known json;
BEGIN
  known := headline::json;
  RETURN coalesce(nullif(concat_ws(' → ',
    nullif(known ->> 'title', ''),
    nullif(ltrim(coalesce((SELECT string_agg((t.tool ->> 0) || CASE t.tool ->> 1 WHEN '1' THEN '' ELSE ' ×' || (t.tool ->> 1) END,
                                             ', ' ORDER BY t.place)
                           FROM json_array_elements(known -> 'tools') WITH ORDINALITY AS t (tool, place)), '')
                 || coalesce(' (' || nullif(known ->> 'failures', '0') || ' failed)', '')), ''),
    nullif(known ->> 'answer', '')), ''), '(no text)');
EXCEPTION WHEN OTHERS THEN
  RETURN '(no text)';
END $$;

-- As `Exchange::digest` has it.
CREATE OR REPLACE VIEW agent_pending WITH (security_barrier) AS
  SELECT e.agent_id, e.exchange AS exchange_id,
         CASE e.state WHEN 'interrupted' THEN '(interrupted) ' ELSE '' END || recapd_digest(e.headline) AS digest,
         e.tokens AS token_count, e.opened_at AS started_at, e.last_at AS ended_at
  FROM summaries s JOIN agents a ON a.agent_id = s.agent_id
  JOIN exchange_log e ON e.agent_id = a.agent_id
                     AND e.exchange > coalesce(s.held_through, a.summarized_through) AND e.exchange < a.first_exchange
  WHERE e.set_aside_at IS NULL AND e.role = 'exchange'
    AND ((SELECT recapd_scope()) = '*' OR e.agent_id = (SELECT recapd_scope()));
