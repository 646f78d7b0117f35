-- recapd's tables on SQLite. Times are integer milliseconds since 1970 UTC; every key starts with agent_id.
-- The names `messages`, `exchanges` and `summary_documents` belong to seed-shaped views.

-- One row per agent: its watermarks and the running totals that make an append independent of the history's length.
CREATE TABLE agents (
  agent_id             TEXT    NOT NULL PRIMARY KEY CHECK (length(agent_id) BETWEEN 1 AND 128),
  project_id           TEXT,
  parent_agent_id      TEXT,
  fork_exchange        INTEGER,                      -- NULL: no fork (0 would be a fork before the first exchange)
  settings             TEXT    NOT NULL DEFAULT '{}',-- JSON: what this agent overrides in the configuration
  created_at           INTEGER NOT NULL,
  updated_at           INTEGER NOT NULL,
  paused_at            INTEGER,
  as_of                INTEGER,                      -- the time items are aged by; NULL: the clock
  last_seq             INTEGER NOT NULL DEFAULT 0,
  last_exchange        INTEGER NOT NULL DEFAULT 0,
  newest_exchange      INTEGER,                      -- newest live exchange; NULL: none yet
  last_item            INTEGER NOT NULL DEFAULT 0,
  last_eviction        INTEGER NOT NULL DEFAULT 0,
  session              INTEGER NOT NULL DEFAULT 1,
  first_exchange       INTEGER NOT NULL DEFAULT 1,   -- boundary: first exchange in the window
  tokens_before_window INTEGER NOT NULL DEFAULT 0,   -- tokens_before of the boundary
  summarized_through   INTEGER NOT NULL DEFAULT 0,   -- last exchange that the summary covers
  pending_since        INTEGER,                      -- NULL: nothing is pending
  budget_tokens        INTEGER NOT NULL DEFAULT 0,   -- the ceiling that the last append kept; 0: none
  CHECK (summarized_through < first_exchange)
) STRICT, WITHOUT ROWID;
CREATE INDEX agents_pending ON agents (pending_since) WHERE pending_since IS NOT NULL;
CREATE INDEX agents_project ON agents (project_id, agent_id) WHERE project_id IS NOT NULL;

-- Append-only. `payload` is what the client sent.
CREATE TABLE message_log (
  id           INTEGER PRIMARY KEY,
  agent_id     TEXT    NOT NULL REFERENCES agents (agent_id),
  seq          INTEGER NOT NULL,
  exchange     INTEGER NOT NULL,
  kind         TEXT    NOT NULL,
  speaker      TEXT,
  format       TEXT    NOT NULL,
  payload      TEXT    NOT NULL,
  tokens       INTEGER NOT NULL CHECK (tokens >= 0),
  count_method TEXT    NOT NULL,
  client_id    TEXT,
  said_at      INTEGER NOT NULL,
  received_at  INTEGER NOT NULL,
  forgotten_at INTEGER
) STRICT;
CREATE UNIQUE INDEX message_log_order  ON message_log (agent_id, seq);
CREATE UNIQUE INDEX message_log_client ON message_log (agent_id, client_id) WHERE client_id IS NOT NULL;

CREATE TABLE sessions (
  agent_id       TEXT    NOT NULL REFERENCES agents (agent_id),
  session        INTEGER NOT NULL,
  first_exchange INTEGER NOT NULL,
  opened_at      INTEGER NOT NULL,
  ended_at       INTEGER,
  end_reason     TEXT,                               -- idle | end | clear
  PRIMARY KEY (agent_id, session)
) STRICT, WITHOUT ROWID;

-- Exchange 0 is the preamble. A forked agent's rows point to the messages of the agent they came from.
CREATE TABLE exchange_log (
  agent_id        TEXT    NOT NULL REFERENCES agents (agent_id),
  exchange        INTEGER NOT NULL,
  role            TEXT    NOT NULL CHECK (role IN ('preamble', 'exchange')),
  session         INTEGER NOT NULL,
  source_agent_id TEXT    NOT NULL,
  first_seq       INTEGER NOT NULL,
  last_seq        INTEGER NOT NULL,
  tokens          INTEGER NOT NULL,
  tokens_before   INTEGER NOT NULL,
  state           TEXT    NOT NULL CHECK (state IN ('open', 'closed', 'interrupted')),
  opened_at       INTEGER NOT NULL,
  last_at         INTEGER NOT NULL,
  headline        TEXT    NOT NULL,                  -- JSON: title, tools, answer
  set_aside_at    INTEGER,
  PRIMARY KEY (agent_id, exchange)
) STRICT, WITHOUT ROWID;
-- The cut: the first exchange with at least so many tokens before it.
CREATE INDEX exchange_log_cut ON exchange_log (agent_id, tokens_before, exchange)
  WHERE set_aside_at IS NULL AND role = 'exchange';

CREATE TABLE evictions (
  agent_id         TEXT    NOT NULL REFERENCES agents (agent_id),
  eviction         INTEGER NOT NULL,
  from_exchange    INTEGER NOT NULL,
  through_exchange INTEGER NOT NULL,
  tokens           INTEGER NOT NULL,
  evicted_at       INTEGER NOT NULL,
  PRIMARY KEY (agent_id, eviction)
) STRICT, WITHOUT ROWID;

CREATE TABLE counters (name TEXT NOT NULL PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO counters VALUES ('lease_token', 0);      -- fencing tokens: never reused, also after a row is gone

-- One row per agent. The watermarks are the truth; a row only says when to look.
CREATE TABLE summary_update_queue (
  agent_id     TEXT    NOT NULL PRIMARY KEY,
  priority     INTEGER NOT NULL DEFAULT 100,         -- larger is more urgent; feeds due_at only
  reasons      INTEGER NOT NULL DEFAULT 1,           -- bits, a label for metrics
  queued_at    INTEGER NOT NULL,                     -- first wake not yet served
  visible_at   INTEGER NOT NULL,                     -- debounce, backoff and lease expiry alike
  due_at       INTEGER NOT NULL,                     -- visible_at + slack(priority): the order of claims
  wake_seq     INTEGER NOT NULL DEFAULT 1,           -- moved on by every enqueue
  claimed_wake INTEGER NOT NULL DEFAULT 0,
  lease_token  INTEGER,                              -- NULL: not leased
  lease_owner  TEXT,
  leased_at    INTEGER,
  attempts     INTEGER NOT NULL DEFAULT 0,
  crashes      INTEGER NOT NULL DEFAULT 0,
  last_error   TEXT,
  parked_at    INTEGER,
  revived_at   INTEGER,
  processing   INTEGER GENERATED ALWAYS AS (lease_token IS NOT NULL) VIRTUAL   -- seed 003's column; can't lie
) STRICT, WITHOUT ROWID;
CREATE INDEX summary_update_queue_claim  ON summary_update_queue (due_at, visible_at, agent_id) WHERE parked_at IS NULL;
CREATE INDEX summary_update_queue_parked ON summary_update_queue (parked_at) WHERE parked_at IS NOT NULL;

-- The current document of each agent.
CREATE TABLE summaries (
  agent_id       TEXT    NOT NULL PRIMARY KEY REFERENCES agents (agent_id),
  version        INTEGER NOT NULL DEFAULT 0,
  content        TEXT    NOT NULL DEFAULT '',
  token_count    INTEGER NOT NULL DEFAULT 0 CHECK (token_count BETWEEN 0 AND 10000),
  updated_at     INTEGER NOT NULL,
  next_ageing_at INTEGER                             -- when an item changes its section; NULL: never
) STRICT, WITHOUT ROWID;
CREATE INDEX summaries_ageing ON summaries (next_ageing_at) WHERE next_ageing_at IS NOT NULL;

CREATE TABLE summary_versions (
  agent_id       TEXT    NOT NULL REFERENCES agents (agent_id),
  version        INTEGER NOT NULL,
  lease_token    INTEGER NOT NULL UNIQUE,            -- an update is applied once, whoever retries
  covers_after   INTEGER NOT NULL,
  covers_through INTEGER NOT NULL,
  exchanges      INTEGER NOT NULL,
  path           TEXT    NOT NULL CHECK (path IN ('append', 'merge', 'full')),
  content        TEXT    NOT NULL,
  token_count    INTEGER NOT NULL CHECK (token_count BETWEEN 0 AND 10000),
  as_of          INTEGER NOT NULL,
  created_at     INTEGER NOT NULL,
  PRIMARY KEY (agent_id, version)
) STRICT;

-- removed_version: replaced or withdrawn, covers nothing any more. dropped_version: left the document, still covers.
CREATE TABLE summary_items (
  agent_id        TEXT    NOT NULL REFERENCES agents (agent_id),
  item            INTEGER NOT NULL,
  added_version   INTEGER NOT NULL,
  removed_version INTEGER,
  dropped_version INTEGER,
  importance      TEXT    NOT NULL,
  origin          TEXT    NOT NULL,
  provisional     INTEGER NOT NULL CHECK (provisional IN (0, 1)),
  started_at      INTEGER NOT NULL,
  ended_at        INTEGER NOT NULL,
  source_tokens   INTEGER NOT NULL,
  text            TEXT    NOT NULL,
  brief           TEXT    NOT NULL,
  gist            TEXT    NOT NULL,
  PRIMARY KEY (agent_id, item)
) STRICT, WITHOUT ROWID;
CREATE INDEX summary_items_shown ON summary_items (agent_id, item)
  WHERE removed_version IS NULL AND dropped_version IS NULL;
CREATE INDEX summary_items_provisional ON summary_items (agent_id, item)
  WHERE provisional = 1 AND removed_version IS NULL;

CREATE TABLE summary_item_ranges (
  agent_id       TEXT    NOT NULL,
  item           INTEGER NOT NULL,
  first_exchange INTEGER NOT NULL,
  last_exchange  INTEGER NOT NULL CHECK (last_exchange >= first_exchange),
  PRIMARY KEY (agent_id, item, first_exchange),
  FOREIGN KEY (agent_id, item) REFERENCES summary_items (agent_id, item)
) STRICT, WITHOUT ROWID;
CREATE INDEX summary_item_ranges_exchange ON summary_item_ranges (agent_id, first_exchange, last_exchange, item);

-- A model's answer, kept before it is applied, so that a crash pays for at most one more call.
CREATE TABLE model_answers (
  agent_id      TEXT    NOT NULL,
  journal_key   TEXT    NOT NULL,
  answer        TEXT    NOT NULL,
  input_tokens  INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  created_at    INTEGER NOT NULL,
  PRIMARY KEY (agent_id, journal_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX model_answers_age ON model_answers (created_at);

-- One row per attempt.
CREATE TABLE update_runs (
  run             INTEGER PRIMARY KEY,
  agent_id        TEXT    NOT NULL,
  lease_token     INTEGER NOT NULL,
  attempt         INTEGER NOT NULL,
  trigger_reason  TEXT    NOT NULL,
  outcome         TEXT    NOT NULL CHECK (outcome IN ('completed', 'failed', 'superseded')),
  path            TEXT,
  version         INTEGER,
  covers_after    INTEGER,
  covers_through  INTEGER,
  exchanges       INTEGER NOT NULL DEFAULT 0,
  items_added     INTEGER NOT NULL DEFAULT 0,
  items_dropped   INTEGER NOT NULL DEFAULT 0,
  document_tokens INTEGER,
  truncated       INTEGER NOT NULL DEFAULT 0,
  provider        TEXT,
  model           TEXT,
  model_calls     INTEGER NOT NULL DEFAULT 0,
  input_tokens    INTEGER NOT NULL DEFAULT 0,
  output_tokens   INTEGER NOT NULL DEFAULT 0,
  cost_microusd   INTEGER,                           -- NULL: the price is not known
  error_class     TEXT,
  error           TEXT,
  started_at      INTEGER NOT NULL,
  finished_at     INTEGER NOT NULL
) STRICT;
CREATE INDEX update_runs_time  ON update_runs (finished_at);
CREATE INDEX update_runs_agent ON update_runs (agent_id, run);

-- Each firing of a schedule happens once: whoever inserts the slot fires it.
CREATE TABLE schedule_slots (
  name     TEXT    NOT NULL,
  slot     INTEGER NOT NULL,
  fired_at INTEGER NOT NULL,
  PRIMARY KEY (name, slot)
) STRICT, WITHOUT ROWID;

-- To be read with plain SQL.
CREATE VIEW agent_summary AS
  SELECT s.agent_id, s.content, s.version, s.token_count, s.updated_at,
         a.summarized_through AS covers_through, a.first_exchange, a.pending_since
  FROM summaries s JOIN agents a ON a.agent_id = s.agent_id;
CREATE VIEW summary_documents AS SELECT agent_id, content, updated_at FROM summaries;
