-- What runs as the owner of the tables calls by name only what is PostgreSQL's own. Before, a function in a schema where any role may
-- create could be a closer match than PostgreSQL's (`hashtextextended(text, integer)`), and ran as recapd.

-- Which agents the caller of a view may see: '*' is all, NULL none. Who logged in as a member of `agent_own` (see roles.sql) is the
-- agent of its name, whatever role it takes on: else all members could be one agent, that of a group they share. By a role that was
-- taken on goes who has no rights of `agent_own` without one (NOINHERIT): a program that acts for several agents. What isn't known
-- (a role that was renamed since) is nobody.
CREATE OR REPLACE FUNCTION recapd_scope() RETURNS text LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  login  text := session_user;
  caller text := coalesce(nullif(pg_catalog.current_setting('role'), 'none'), login);
  chosen text := nullif(pg_catalog.current_setting('recapd.agent', true), '');
  own    oid := (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = 'agent_own');
BEGIN
  IF own IS NOT NULL THEN
    IF EXISTS (SELECT 1 FROM pg_catalog.pg_roles r WHERE r.rolname = login AND NOT r.rolsuper
               AND pg_catalog.pg_has_role(r.oid, own, 'USAGE')) THEN
      caller := login;
    END IF;
    IF NOT EXISTS (SELECT 1 FROM pg_catalog.pg_roles r WHERE r.rolname = caller) OR caller = 'agent_own' THEN
      RETURN NULL;
    END IF;
    IF EXISTS (SELECT 1 FROM pg_catalog.pg_roles r WHERE r.rolname = caller AND NOT r.rolsuper
               AND pg_catalog.pg_has_role(r.oid, own, 'MEMBER')) THEN
      RETURN CASE WHEN caller <> '*' AND coalesce(chosen, caller) = caller THEN caller END;
    END IF;
  END IF;
  RETURN coalesce(chosen, '*');
END $$;

-- As in migration 2, but for the names: those of PostgreSQL are written out, with the types that they take, and so is the schema of
-- the tables.
DO $do$ BEGIN
  EXECUTE pg_catalog.replace($make$
CREATE OR REPLACE FUNCTION {schema}.recapd_take_message() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  scope pg_catalog.text := {schema}.recapd_scope();
  newest pg_catalog.int8;
  oldest pg_catalog.int8;
BEGIN
  IF scope IS NULL OR (scope <> '*' AND scope IS DISTINCT FROM NEW.agent_id) THEN
    RAISE EXCEPTION 'this role may not write messages of agent %', coalesce(pg_catalog.quote_literal(NEW.agent_id), 'NULL')
      USING ERRCODE = 'insufficient_privilege',
            HINT = 'a role in agent_own writes messages of the agent of its own name; recapd.agent narrows it further';
  END IF;
  IF coalesce(pg_catalog.octet_length(NEW.content), 0) + coalesce(pg_catalog.octet_length(NEW.agent_id), 0)
     + coalesce(pg_catalog.octet_length(NEW.role), 0) + coalesce(pg_catalog.octet_length(NEW.format), 0)
     + coalesce(pg_catalog.octet_length(NEW.speaker), 0) + coalesce(pg_catalog.octet_length(NEW.client_id), 0) > 4194304 THEN
    RAISE EXCEPTION 'the message is longer than 4194304 bytes'
      USING ERRCODE = 'program_limit_exceeded', HINT = 'keep large texts elsewhere and insert what says where';
  END IF;
  IF NEW.created_at NOT BETWEEN '0001-01-01 00:00:00+00' AND '9999-12-31 23:59:59.999+00' THEN
    RAISE EXCEPTION 'created_at is no time between the years 1 and 9999' USING ERRCODE = 'datetime_field_overflow';
  END IF;
  -- Transactions that write for the same agent follow each other, up to their commits: else numbers would not be in
  -- the order of commits, and what one inserts would not stand together.
  PERFORM pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('recapd inbox ' || coalesce(NEW.agent_id, ''),
    0::pg_catalog.int8));
  -- By their numbers, so that an insert costs the same however many wait.
  newest := (SELECT pg_catalog.max(i.id) FROM {schema}.message_inbox i);
  oldest := (SELECT pg_catalog.min(i.id) FROM {schema}.message_inbox i WHERE i.refused_at IS NULL);
  IF newest - oldest >= 99999 THEN
    RAISE EXCEPTION '100000 messages wait to be taken in'
      USING ERRCODE = 'configuration_limit_exceeded', HINT = 'is recapd serve running on this database?';
  END IF;
  INSERT INTO {schema}.message_inbox (agent_id, role, content, format, speaker, client_id, said_at, received_at)
    VALUES (NEW.agent_id, NEW.role, NEW.content, NEW.format, NEW.speaker, NEW.client_id, NEW.created_at,
            pg_catalog.clock_timestamp());
  -- Always the same words: a transaction's notifications are one then.
  PERFORM pg_catalog.pg_notify('recapd_inbox', '');
  RETURN NEW;
END $$
  $make$, '{schema}', pg_catalog.quote_ident(pg_catalog.current_schema()));
END $do$;

-- What runs as its caller, who may be recapd itself or a superuser: in triggers of the tables, and in views.
ALTER FUNCTION recapd_message_text(text) SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION recapd_queue_woken() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION recapd_agent_changed() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION recapd_refuse_change() SET search_path = pg_catalog, pg_temp;
