-- Facts say how things stand beside the items, which say what happened. The summary of an agent has none until its next update.
ALTER TABLE agents ADD COLUMN last_fact bigint NOT NULL DEFAULT 0;

-- closed_version: settled, replaced or withdrawn, holds no longer. Texts never change but when they are forgotten: what is said
-- otherwise is a fact of its own, and so is one that holds again.
CREATE TABLE summary_facts (
  agent_id           text COLLATE "C" NOT NULL REFERENCES agents (agent_id) DEFERRABLE,
  fact               bigint      NOT NULL,
  added_version      bigint      NOT NULL,
  closed_version     bigint,
  closed_by_exchange bigint,                         -- the exchange that ended it; NULL: none, or none that counts any more
  replaced_by        bigint,                         -- the fact that holds in its place
  kind               text COLLATE "C" NOT NULL,
  text               text        NOT NULL,
  voice              text COLLATE "C",               -- whose words these are; NULL: the summariser's
  speaker            text        NOT NULL,
  since              timestamptz NOT NULL,
  exchange           bigint      NOT NULL,           -- where it comes from; 0: from an operator
  pinned             boolean     NOT NULL DEFAULT false,
  -- Whose fact this is a copy of, number by number, as of a fork; NULL: the agent's own.
  source_agent_id    text COLLATE "C",
  source_fact        bigint,                         -- the number that the copy has there, if not the same
  PRIMARY KEY (agent_id, fact)
);
CREATE INDEX summary_facts_holding ON summary_facts (agent_id, fact)
  WHERE closed_version IS NULL;
ALTER TABLE summary_facts ALTER text SET STATISTICS 0;

-- The facts that hold, for readers by SQL. A barrier, as its sisters are.
CREATE VIEW agent_facts WITH (security_barrier) AS
  SELECT agent_id, fact, kind, text, voice, speaker, since, exchange AS exchange_id, pinned
  FROM summary_facts
  WHERE closed_version IS NULL
    AND ((SELECT recapd_scope()) = '*' OR agent_id = (SELECT recapd_scope()));

DO $$
DECLARE
  change text;
  name text;
BEGIN
  FOREACH change IN ARRAY ARRAY['insert', 'update', 'delete'] LOOP
    EXECUTE format('CREATE TRIGGER agent_facts_%1$s INSTEAD OF %1$s ON agent_facts FOR EACH ROW EXECUTE FUNCTION recapd_refuse_change(%2$L)',
                   change, 'facts are told by recapd and can only be read');
    EXECUTE format('CREATE TRIGGER agent_facts_no_%1$s BEFORE %1$s ON agent_facts FOR EACH STATEMENT EXECUTE FUNCTION recapd_refuse_change(%2$L)',
                   change, 'facts are told by recapd and can only be read');
  END LOOP;
  -- Where roles.sql was run before: who reads its sisters reads it, too.
  FOR name IN SELECT rolname FROM pg_roles WHERE rolname IN ('agent_rw', 'reader', 'agent_own')
              AND has_table_privilege(oid, 'agent_summary', 'SELECT') LOOP
    EXECUTE format('GRANT SELECT ON agent_facts TO %I', name);
  END LOOP;
END $$;
