-- What has left the window and isn't in the summary yet, for readers by SQL: over HTTP the document is read with it, but
-- `agent_summary` shows the document alone.

-- An exchange in one line: what `Headline::digest` makes of it. What can't be read must not spoil the rows beside it.
CREATE FUNCTION recapd_digest(headline text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT
  SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  known json;
BEGIN
  known := headline::json;
  RETURN coalesce(nullif(concat_ws(' → ',
    nullif(known ->> 'title', ''),
    nullif((SELECT string_agg((t.tool ->> 0) || CASE t.tool ->> 1 WHEN '1' THEN '' ELSE ' ×' || (t.tool ->> 1) END,
                              ', ' ORDER BY t.place)
            FROM json_array_elements(known -> 'tools') WITH ORDINALITY AS t (tool, place)), ''),
    nullif(known ->> 'answer', '')), ''), '(no text)');
EXCEPTION WHEN OTHERS THEN
  RETURN '(no text)';
END $$;

-- A barrier, as its sisters are. While a rebuild catches up, it is what lies behind the document that is held.
CREATE VIEW agent_pending WITH (security_barrier) AS
  SELECT e.agent_id, e.exchange AS exchange_id, recapd_digest(e.headline) AS digest, e.tokens AS token_count,
         e.opened_at AS started_at, e.last_at AS ended_at
  FROM summaries s JOIN agents a ON a.agent_id = s.agent_id
  JOIN exchange_log e ON e.agent_id = a.agent_id
                     AND e.exchange > coalesce(s.held_through, a.summarized_through) AND e.exchange < a.first_exchange
  WHERE e.set_aside_at IS NULL AND e.role = 'exchange'
    AND ((SELECT recapd_scope()) = '*' OR e.agent_id = (SELECT recapd_scope()));

DO $$
DECLARE
  change text;
  name text;
BEGIN
  FOREACH change IN ARRAY ARRAY['insert', 'update', 'delete'] LOOP
    EXECUTE format('CREATE TRIGGER agent_pending_%1$s INSTEAD OF %1$s ON agent_pending FOR EACH ROW EXECUTE FUNCTION recapd_refuse_change(%2$L)',
                   change, 'what is pending is told by recapd and can only be read');
    EXECUTE format('CREATE TRIGGER agent_pending_no_%1$s BEFORE %1$s ON agent_pending FOR EACH STATEMENT EXECUTE FUNCTION recapd_refuse_change(%2$L)',
                   change, 'what is pending is told by recapd and can only be read');
  END LOOP;
  -- Where roles.sql was run before: who reads its sisters reads it, too.
  FOR name IN SELECT rolname FROM pg_roles WHERE rolname IN ('agent_rw', 'reader', 'agent_own')
              AND has_table_privilege(oid, 'agent_summary', 'SELECT') LOOP
    EXECUTE format('GRANT SELECT ON agent_pending TO %I', name);
  END LOOP;
END $$;
