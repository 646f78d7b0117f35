-- What the proxy did for each agent, summed up from its reports.
CREATE TABLE proxy_traffic (
  agent_id              TEXT    NOT NULL PRIMARY KEY REFERENCES agents (agent_id),
  requests              INTEGER NOT NULL,
  request_bytes         INTEGER NOT NULL,
  answer_bytes          INTEGER NOT NULL,
  compactions_answered  INTEGER NOT NULL,
  compactions_forwarded INTEGER NOT NULL,
  answering_ms          INTEGER NOT NULL,
  window_steps          INTEGER NOT NULL,
  saved_input_tokens    INTEGER NOT NULL,            -- an estimate
  failed_open           INTEGER NOT NULL,
  unstored              INTEGER NOT NULL,
  first_at              INTEGER NOT NULL,            -- of the first report
  last_at               INTEGER NOT NULL,            -- of the last report
  recent_reports        TEXT    NOT NULL             -- their names, newest first: a report that comes again counts once
) STRICT, WITHOUT ROWID;
