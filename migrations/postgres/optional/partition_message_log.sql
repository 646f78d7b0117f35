-- Splits message_log by agent into hash partitions. Optional: nothing else changes, and daemons need not know. For databases
-- whose messages have outgrown one table: vacuums, index builds and backups then go partition by partition.
--
--   psql "$URL" -v ON_ERROR_STOP=1 -c 'SET recapd.partitions = 64' -f partition_message_log.sql
--
-- 16 partitions if nothing is set; the number can't be changed later without copying again. All is one transaction, which
-- copies the table: it needs room for a second one, and nobody reads or writes messages until it is done. Stop the
-- daemons first, so that they don't wait. Views on the table go on as they are; privileges and row policies that the
-- table itself had must be given again.
DO $partition$
DECLARE
  partitions integer := coalesce(nullif(current_setting('recapd.partitions', true), ''), '16')::integer;
  used_by record;
  name text;
BEGIN
  IF partitions NOT BETWEEN 2 AND 1024 THEN
    RAISE EXCEPTION 'recapd.partitions is %: set it to a number from 2 to 1024', partitions;
  END IF;
  LOCK TABLE message_log IN ACCESS EXCLUSIVE MODE;
  IF (SELECT relkind = 'p' FROM pg_class WHERE oid = 'message_log'::regclass) THEN
    RAISE EXCEPTION 'message_log is partitioned already';
  END IF;
  IF EXISTS (SELECT 1 FROM pg_trigger WHERE tgrelid = 'message_log'::regclass AND NOT tgisinternal) THEN
    RAISE EXCEPTION 'message_log has triggers, which the partitioned table would lack: drop them first, make them again afterwards';
  END IF;
  -- What is said about a view here names the table, so that it means the new one when it is said again.
  CREATE TEMP TABLE used_by_views ON COMMIT DROP AS
    SELECT DISTINCT c.oid::regclass::text AS view, pg_get_viewdef(c.oid) AS definition,
           array_to_string(c.reloptions, ', ') AS options
    FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid JOIN pg_class c ON c.oid = r.ev_class
    WHERE d.classid = 'pg_rewrite'::regclass AND d.refobjid = 'message_log'::regclass AND c.relkind = 'v';

  ALTER TABLE message_log RENAME TO message_log_whole;
  CREATE TABLE message_log (LIKE message_log_whole INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE)
    PARTITION BY HASH (agent_id);
  FOR part IN 0 .. partitions - 1 LOOP
    name := 'message_log_' || lpad(part::text, 4, '0');
    EXECUTE format('CREATE TABLE %I PARTITION OF message_log FOR VALUES WITH (MODULUS %s, REMAINDER %s)',
                   name, partitions, part);
  END LOOP;
  -- As of the whole table: what was said is kept out of the planner's statistics, which forgetting doesn't reach. Here it
  -- holds for the partitions, too.
  ALTER TABLE message_log ALTER payload SET STATISTICS 0;
  INSERT INTO message_log SELECT * FROM message_log_whole;

  FOR used_by IN SELECT * FROM used_by_views LOOP
    EXECUTE format('CREATE OR REPLACE VIEW %s %s AS %s', used_by.view, 'WITH (' || used_by.options || ')', used_by.definition);
  END LOOP;
  DROP TABLE message_log_whole;
  -- Made last: over sorted rows, and under the names that the old table had until now.
  ALTER TABLE message_log ADD CONSTRAINT message_log_order PRIMARY KEY (agent_id, seq);
  CREATE UNIQUE INDEX message_log_client ON message_log (agent_id, client_id) WHERE client_id IS NOT NULL;
  ALTER TABLE message_log ADD FOREIGN KEY (agent_id) REFERENCES agents (agent_id) DEFERRABLE;
END
$partition$;
ANALYZE message_log;
