-- What the proxy did for each agent, summed up from its reports.
CREATE TABLE proxy_traffic (
  agent_id              text COLLATE "C" NOT NULL PRIMARY KEY REFERENCES agents (agent_id) DEFERRABLE,
  requests              bigint      NOT NULL,
  request_bytes         bigint      NOT NULL,
  answer_bytes          bigint      NOT NULL,
  compactions_answered  bigint      NOT NULL,
  compactions_forwarded bigint      NOT NULL,
  answering_ms          bigint      NOT NULL,
  window_steps          bigint      NOT NULL,
  saved_input_tokens    bigint      NOT NULL,        -- an estimate
  failed_open           bigint      NOT NULL,
  unstored              bigint      NOT NULL,
  first_at              timestamptz NOT NULL,        -- of the first report
  last_at               timestamptz NOT NULL,        -- of the last report
  recent_reports        text COLLATE "C" NOT NULL    -- their names, newest first: a report that comes again counts once
);
