-- Roles for agents and readers that speak SQL (docs/sql.md). Run it once, by somebody who may make roles, in recapd's
-- database, after `recapd serve` has made the schema; running it again changes nothing:
--
--   psql -d recapd -f roles.sql
--
-- If recapd's tables are in a schema of their own, set search_path to it first. Nobody logs in by these roles: they are
-- granted to those who do. None of them has any right to a table.
--
--   agent_rw   inserts messages of any agent, and reads all views
--   reader     reads all views
--   agent_own  inserts messages of one agent, the one that is called like the role, and sees no row of others
--
-- What every role of a database may do, these may, too: listen to what the daemons tell each other, which names agents, and
-- take advisory locks. docs/security.md says what follows, and how to take the locks away.

DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['agent_rw', 'reader', 'agent_own'] LOOP
    BEGIN
      EXECUTE format('CREATE ROLE %I NOLOGIN', name);
    EXCEPTION WHEN duplicate_object OR unique_violation THEN
      NULL;                                          -- it is there already: roles are the server's, not a database's
    END;
  END LOOP;
  EXECUTE format('GRANT USAGE ON SCHEMA %I TO agent_rw, reader, agent_own', current_schema());
  -- Before PostgreSQL 15 every role could create in `public`, and clusters keep that through upgrades. A function there can be a
  -- closer match for what recapd calls than PostgreSQL's own: recapd refuses to start in such a schema.
  IF EXISTS (SELECT 1 FROM pg_namespace n, aclexplode(n.nspacl) a WHERE n.nspname = current_schema()
             AND a.grantee = 0 AND a.privilege_type = 'CREATE') THEN
    EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', current_schema());
  END IF;
END $$;

GRANT SELECT ON messages, exchanges, agent_summary, agent_pending, agent_facts, summary_documents, refused_messages
  TO agent_rw, reader, agent_own;
GRANT INSERT ON messages TO agent_rw, agent_own;

-- As the schema has it. A dump that was restored without its rights has lost it, and any role could put the function on a table
-- of its own and write messages of any agent by it.
REVOKE EXECUTE ON FUNCTION recapd_take_message() FROM PUBLIC;
