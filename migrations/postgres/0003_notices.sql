-- What daemons on one database tell each other, whoever writes, also by plain SQL. A notice is sent with the commit, once
-- for each text.
-- A NOTIFY takes a lock of the whole server at its commit, so none is sent per write: only when a row of the queue can be
-- claimed earlier than before, and at once (what becomes visible later is found by the poll), and when what readers of a
-- summary see has changed.

CREATE FUNCTION recapd_queue_woken() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('recapd_queue', '');
  RETURN NULL;
END $$;

CREATE TRIGGER summary_update_queue_made AFTER INSERT ON summary_update_queue
  FOR EACH ROW WHEN (NEW.parked_at IS NULL AND NEW.visible_at <= now())
  EXECUTE FUNCTION recapd_queue_woken();
CREATE TRIGGER summary_update_queue_moved AFTER UPDATE OF visible_at ON summary_update_queue
  FOR EACH ROW WHEN (NEW.parked_at IS NULL AND NEW.visible_at <= now()
    AND (NEW.visible_at < OLD.visible_at OR OLD.parked_at IS NOT NULL))
  EXECUTE FUNCTION recapd_queue_woken();

CREATE FUNCTION recapd_agent_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    PERFORM pg_notify('recapd_agent', OLD.agent_id);
  ELSE
    PERFORM pg_notify('recapd_agent', NEW.agent_id);
  END IF;
  RETURN NULL;
END $$;

-- An agent of a project, even a new one, changes the project's document.
CREATE TRIGGER agents_made AFTER INSERT ON agents
  FOR EACH ROW WHEN (NEW.project_id IS NOT NULL) EXECUTE FUNCTION recapd_agent_changed();
CREATE TRIGGER agents_moved AFTER UPDATE OF first_exchange, summarized_through, project_id, recount_before ON agents
  FOR EACH ROW WHEN ((OLD.first_exchange, OLD.summarized_through, OLD.project_id, OLD.recount_before)
    IS DISTINCT FROM (NEW.first_exchange, NEW.summarized_through, NEW.project_id, NEW.recount_before))
  EXECUTE FUNCTION recapd_agent_changed();
CREATE TRIGGER agents_set AFTER UPDATE OF settings ON agents
  FOR EACH ROW WHEN (OLD.settings::text IS DISTINCT FROM NEW.settings::text) EXECUTE FUNCTION recapd_agent_changed();
CREATE TRIGGER agents_gone AFTER DELETE ON agents
  FOR EACH ROW EXECUTE FUNCTION recapd_agent_changed();

CREATE TRIGGER summaries_made AFTER INSERT ON summaries
  FOR EACH ROW WHEN (NEW.version > 0) EXECUTE FUNCTION recapd_agent_changed();
CREATE TRIGGER summaries_changed AFTER UPDATE OF version, held_version, updated_at ON summaries
  FOR EACH ROW WHEN ((OLD.version, OLD.held_version, OLD.updated_at)
    IS DISTINCT FROM (NEW.version, NEW.held_version, NEW.updated_at))
  EXECUTE FUNCTION recapd_agent_changed();
