-- Who changed what over HTTP, who was refused, who signed in. It holds no text of a message and no token, and no other table
-- refers to it: an agent that is deleted leaves its events here. The newest of each kind are kept (http.audit_rows_max).
CREATE TABLE audit_events (
  event      INTEGER PRIMARY KEY,
  at         INTEGER NOT NULL,
  kind       TEXT    NOT NULL CHECK (kind IN ('append', 'change', 'refusal', 'sign_in')),
  token      TEXT,                                   -- its name; NULL: none, or an unknown one
  peer       TEXT    NOT NULL,                       -- the client's address
  method     TEXT    NOT NULL,
  route      TEXT    NOT NULL,                       -- the template, such as /v1/agents/{id}/pause
  agent_id   TEXT,
  request_id TEXT    NOT NULL,
  status     INTEGER NOT NULL,
  outcome    TEXT    NOT NULL                        -- done, or the problem's code
) STRICT;
CREATE INDEX audit_events_kind  ON audit_events (kind, event);
CREATE INDEX audit_events_agent ON audit_events (agent_id, event);
