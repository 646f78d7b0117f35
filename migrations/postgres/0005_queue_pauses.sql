-- While there is a row, nothing is claimed: an operator has paused all updates. The name is always `all`.
CREATE TABLE queue_pauses (
  name      text COLLATE "C" NOT NULL PRIMARY KEY,
  paused_at timestamptz NOT NULL
);

CREATE TRIGGER queue_pauses_gone AFTER DELETE ON queue_pauses
  FOR EACH ROW EXECUTE FUNCTION recapd_queue_woken();
