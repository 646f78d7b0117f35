-- recapd's tables on PostgreSQL (13 or newer), as those on SQLite are after their first ten migrations: the same names,
-- the types that PostgreSQL has for them. Every key starts with agent_id. Nothing names a schema: search_path decides.
-- What is compared or ordered is collated by bytes ("C"), as SQLite does it: text for people isn't.
-- References can be deferred, so that an agent goes with all its rows in whatever order.
-- The names `messages`, `exchanges` and `summary_documents` belong to seed-shaped views.

-- One row per agent: its watermarks and the running totals that make an append independent of the history's length.
CREATE TABLE agents (
  agent_id             text COLLATE "C" NOT NULL PRIMARY KEY CHECK (length(agent_id) BETWEEN 1 AND 128),
  project_id           text COLLATE "C",
  parent_agent_id      text COLLATE "C",
  fork_exchange        bigint,                       -- NULL: no fork (0 would be a fork before the first exchange)
  -- A forked agent's own messages are numbered from behind those of the agent it came from, and one more, so that none
  -- of them follows an inherited exchange and could join it.
  fork_seq             bigint      NOT NULL DEFAULT 0,
  settings             json        NOT NULL DEFAULT '{}',  -- json keeps its bytes; what this agent overrides in the configuration
  created_at           timestamptz NOT NULL,
  updated_at           timestamptz NOT NULL,
  paused_at            timestamptz,
  forgotten_at         timestamptz,                  -- when something of it was last forgotten
  as_of                timestamptz,                  -- the time items are aged by; NULL: the clock
  last_seq             bigint      NOT NULL DEFAULT 0,
  last_exchange        bigint      NOT NULL DEFAULT 0,
  newest_exchange      bigint,                       -- newest live exchange; NULL: none yet
  preamble_exchange    bigint,                       -- the running session's preamble; NULL: none yet
  last_item            bigint      NOT NULL DEFAULT 0,
  last_eviction        bigint      NOT NULL DEFAULT 0,
  session              bigint      NOT NULL DEFAULT 1,
  first_exchange       bigint      NOT NULL DEFAULT 1,     -- boundary: first exchange in the window
  tokens_before_window bigint      NOT NULL DEFAULT 0,     -- tokens_before of the boundary
  summarized_through   bigint      NOT NULL DEFAULT 0,     -- last exchange that the summary covers
  pending_since        timestamptz,                  -- NULL: nothing is pending
  budget_tokens        bigint      NOT NULL DEFAULT 0,     -- the ceiling that the last append kept; 0: none
  max_messages         bigint      NOT NULL DEFAULT 0,     -- the ceiling in messages that it kept; 0: none
  -- Exchanges before this one are still to be counted again, down to those the summary covers; NULL: none are.
  recount_before       bigint,
  CHECK (summarized_through < first_exchange)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);  -- every append updates one: room for it in its page
CREATE INDEX agents_pending ON agents (pending_since) WHERE pending_since IS NOT NULL;
CREATE INDEX agents_project ON agents (project_id, agent_id) WHERE project_id IS NOT NULL;
CREATE INDEX agents_parent  ON agents (parent_agent_id) WHERE parent_agent_id IS NOT NULL;
CREATE INDEX agents_recount ON agents (agent_id) WHERE recount_before IS NOT NULL;

-- What a forked agent began with, as of the fork: a journal has to say it, and the agent's later life changes its rows.
CREATE TABLE forks (
  agent_id text COLLATE "C" NOT NULL PRIMARY KEY REFERENCES agents (agent_id) DEFERRABLE,
  record   text NOT NULL                             -- JSON
);

-- Append-only. `payload` is what the client sent: text, because jsonb would not give the same bytes back.
-- Its only key starts with agent_id, so that the table can be partitioned by it.
CREATE TABLE message_log (
  agent_id     text COLLATE "C" NOT NULL REFERENCES agents (agent_id) DEFERRABLE,
  seq          bigint      NOT NULL,
  exchange     bigint      NOT NULL,
  kind         text COLLATE "C" NOT NULL,
  speaker      text COLLATE "C",
  format       text COLLATE "C" NOT NULL,
  payload      text        NOT NULL,
  tokens       bigint      NOT NULL CHECK (tokens >= 0),
  count_method text COLLATE "C" NOT NULL,
  client_id    text COLLATE "C",
  said_at      timestamptz NOT NULL,
  received_at  timestamptz NOT NULL,
  forgotten_at timestamptz,
  CONSTRAINT message_log_order PRIMARY KEY (agent_id, seq)
);
CREATE UNIQUE INDEX message_log_client ON message_log (agent_id, client_id) WHERE client_id IS NOT NULL;

-- How far estimates are off, per provider and model: the last samples.
CREATE TABLE calibrations (
  provider   text COLLATE "C" NOT NULL,
  model      text COLLATE "C" NOT NULL,
  learned    bigint      NOT NULL,                   -- larger learned later
  samples    text        NOT NULL,                   -- JSON, oldest first: [[estimated_tokens, reported_tokens], ...]
  updated_at timestamptz NOT NULL,
  PRIMARY KEY (provider, model)
);

-- What a message costs an agent since its model changed. The message's row keeps the count of its arrival: it is
-- immutable, and a forked agent may share it and run another model.
CREATE TABLE recounts (
  agent_id     text COLLATE "C" NOT NULL REFERENCES agents (agent_id) DEFERRABLE,
  seq          bigint NOT NULL,
  tokens       bigint NOT NULL CHECK (tokens >= 0),
  count_method text COLLATE "C" NOT NULL,
  PRIMARY KEY (agent_id, seq)
);

CREATE TABLE sessions (
  agent_id       text COLLATE "C" NOT NULL REFERENCES agents (agent_id) DEFERRABLE,
  session        bigint      NOT NULL,
  first_exchange bigint      NOT NULL,
  opened_at      timestamptz NOT NULL,
  ended_at       timestamptz,
  end_reason     text COLLATE "C",                   -- idle | end | clear
  PRIMARY KEY (agent_id, session)
);

-- Exchange 0 is the preamble. A forked agent's rows point to the messages of the agent they came from.
CREATE TABLE exchange_log (
  agent_id        text COLLATE "C" NOT NULL REFERENCES agents (agent_id) DEFERRABLE,
  exchange        bigint      NOT NULL,
  role            text COLLATE "C" NOT NULL CHECK (role IN ('preamble', 'exchange')),
  session         bigint      NOT NULL,
  source_agent_id text COLLATE "C" NOT NULL,
  first_seq       bigint      NOT NULL,
  last_seq        bigint      NOT NULL,
  messages        bigint      NOT NULL DEFAULT 0,    -- those that are sent: metadata doesn't count
  tokens          bigint      NOT NULL,
  tokens_before   bigint      NOT NULL,
  state           text COLLATE "C" NOT NULL CHECK (state IN ('open', 'closed', 'interrupted')),
  opened_at       timestamptz NOT NULL,
  last_at         timestamptz NOT NULL,
  headline        text        NOT NULL,              -- JSON: title, tools, answer
  set_aside_at    timestamptz,
  PRIMARY KEY (agent_id, exchange)
) WITH (fillfactor = 90);                            -- the open one is updated by each of its messages
-- The cut: the first exchange with at least so many tokens before it.
CREATE INDEX exchange_log_cut ON exchange_log (agent_id, tokens_before, exchange)
  WHERE set_aside_at IS NULL AND role = 'exchange';

CREATE TABLE evictions (
  agent_id         text COLLATE "C" NOT NULL REFERENCES agents (agent_id) DEFERRABLE,
  eviction         bigint      NOT NULL,
  from_exchange    bigint      NOT NULL,
  through_exchange bigint      NOT NULL,
  tokens           bigint      NOT NULL,
  evicted_at       timestamptz NOT NULL,
  PRIMARY KEY (agent_id, eviction)
);

-- The marks one can go back to. A clear and a rewind to an earlier mark take them away; their messages stay.
CREATE TABLE marks (
  agent_id             text COLLATE "C" NOT NULL REFERENCES agents (agent_id) DEFERRABLE,
  mark                 bigint NOT NULL,              -- larger is newer
  label                text COLLATE "C",             -- NULL: an unnamed one
  exchange             bigint NOT NULL,              -- where it stands
  first_exchange       bigint NOT NULL,              -- where the window began then
  tokens_before_window bigint NOT NULL,
  PRIMARY KEY (agent_id, mark)
);
CREATE INDEX marks_label ON marks (agent_id, label, mark) WHERE label IS NOT NULL;

-- Messages that stay in view when their exchange has left the window: pinned by hand, or important to their session.
-- What comes from the messages alone; a rewind behind a message takes its row away.
CREATE TABLE pins (
  agent_id        text COLLATE "C" NOT NULL REFERENCES agents (agent_id) DEFERRABLE,
  seq             bigint  NOT NULL,                  -- the message
  source_agent_id text COLLATE "C" NOT NULL,         -- whose message it is: a fork inherits
  exchange        bigint  NOT NULL,
  session         bigint  NOT NULL,                  -- the session of the exchange
  pinned          boolean NOT NULL,
  important       boolean NOT NULL,
  CHECK (pinned OR important),
  PRIMARY KEY (agent_id, seq)
);
CREATE INDEX pins_pinned   ON pins (agent_id, seq) WHERE pinned;
CREATE INDEX pins_session  ON pins (agent_id, session, seq) WHERE important;
CREATE INDEX pins_exchange ON pins (agent_id, exchange);

-- Fencing tokens: never reused, also after a row is gone. A daemon takes a thousand at a time, so that a claim needs none
-- of its own on the disk.
CREATE SEQUENCE lease_token INCREMENT BY 1000;

-- One row per agent. The watermarks are the truth; a row only says when to look.
CREATE TABLE summary_update_queue (
  agent_id     text COLLATE "C" NOT NULL PRIMARY KEY,
  priority     bigint      NOT NULL DEFAULT 100,     -- larger is more urgent; feeds due_at only
  reasons      bigint      NOT NULL DEFAULT 1,       -- bits, a label for metrics
  queued_at    timestamptz NOT NULL,                 -- first wake not yet served
  visible_at   timestamptz NOT NULL,                 -- debounce, backoff and lease expiry alike
  due_at       timestamptz NOT NULL,                 -- visible_at + slack(priority): the order of claims
  wake_seq     bigint      NOT NULL DEFAULT 1,       -- moved on by every enqueue
  claimed_wake bigint      NOT NULL DEFAULT 0,
  lease_token  bigint,                               -- NULL: not leased
  lease_owner  text COLLATE "C",
  leased_at    timestamptz,
  attempts     bigint      NOT NULL DEFAULT 0,
  crashes      bigint      NOT NULL DEFAULT 0,
  last_error   text,
  parked_at    timestamptz,
  revived_at   timestamptz,
  -- Until when, and for which limit, an update is paused; NULL: it isn't. A claim takes both back.
  paused_until timestamptz,
  paused_for   text COLLATE "C",
  -- A row that waits for a batch's answer: only what is urgent makes it visible earlier. NULL: it doesn't.
  deferred_at  timestamptz,
  processing   boolean GENERATED ALWAYS AS (lease_token IS NOT NULL) STORED    -- seed 003's column; can't lie
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
-- Both times are keys: rows that back off are passed over in the index, without a look at the table.
CREATE INDEX summary_update_queue_claim  ON summary_update_queue (due_at, visible_at, agent_id) WHERE parked_at IS NULL;
CREATE INDEX summary_update_queue_parked ON summary_update_queue (parked_at) WHERE parked_at IS NOT NULL;
CREATE INDEX summary_update_queue_paused ON summary_update_queue (paused_until) WHERE paused_until IS NOT NULL;

-- The current document of each agent.
CREATE TABLE summaries (
  agent_id       text COLLATE "C" NOT NULL PRIMARY KEY REFERENCES agents (agent_id) DEFERRABLE,
  version        bigint      NOT NULL DEFAULT 0,
  content        text        NOT NULL DEFAULT '',
  token_count    bigint      NOT NULL DEFAULT 0 CHECK (token_count BETWEEN 0 AND 10000),
  updated_at     timestamptz NOT NULL,
  next_ageing_at timestamptz,                        -- when an item changes its section; NULL: never
  -- While a rebuild catches up, `content` is that of this earlier version, which covers through that exchange. NULL: it
  -- is that of `version`.
  held_version   bigint,
  held_through   bigint
) WITH (fillfactor = 80);
CREATE INDEX summaries_ageing ON summaries (next_ageing_at) WHERE next_ageing_at IS NOT NULL;

CREATE TABLE summary_versions (
  agent_id       text COLLATE "C" NOT NULL REFERENCES agents (agent_id) DEFERRABLE,
  version        bigint      NOT NULL,
  lease_token    bigint      NOT NULL UNIQUE,        -- an update is applied once, whoever retries
  covers_after   bigint      NOT NULL,
  covers_through bigint      NOT NULL,
  exchanges      bigint      NOT NULL,
  path           text COLLATE "C" NOT NULL CHECK (path IN ('append', 'merge', 'full')),
  -- Every version that no update wrote begins a life of its own: contexts show it at once.
  kind           text COLLATE "C" NOT NULL DEFAULT 'update'
    CHECK (kind IN ('update', 'rewind', 'rollback', 'rebuild', 'edit', 'forget')),
  rewind_seq     bigint,                             -- the message of the rewind that wrote it; NULL: none did
  content        text        NOT NULL,
  token_count    bigint      NOT NULL CHECK (token_count BETWEEN 0 AND 10000),
  as_of          timestamptz NOT NULL,
  created_at     timestamptz NOT NULL,
  purged_at      timestamptz,                        -- its text held what was forgotten, and is gone
  PRIMARY KEY (agent_id, version)
);

-- removed_version: replaced or withdrawn, covers nothing any more. dropped_version: left the document, still covers.
CREATE TABLE summary_items (
  agent_id        text COLLATE "C" NOT NULL REFERENCES agents (agent_id) DEFERRABLE,
  item            bigint      NOT NULL,
  added_version   bigint      NOT NULL,
  removed_version bigint,
  dropped_version bigint,
  -- Whose item this is a copy of, number by number, as of a fork; NULL: the agent's own.
  source_agent_id text COLLATE "C",
  source_item     bigint,                            -- the number that the copy has there, if not the same
  importance      text COLLATE "C" NOT NULL,
  origin          text COLLATE "C" NOT NULL,
  provisional     boolean     NOT NULL,
  pinned          boolean     NOT NULL DEFAULT false,      -- stays in the document, in full, before others
  started_at      timestamptz NOT NULL,
  ended_at        timestamptz NOT NULL,
  source_tokens   bigint      NOT NULL,
  text            text        NOT NULL,
  brief           text        NOT NULL,
  gist            text        NOT NULL,
  PRIMARY KEY (agent_id, item)
);
CREATE INDEX summary_items_shown ON summary_items (agent_id, item)
  WHERE removed_version IS NULL AND dropped_version IS NULL;
CREATE INDEX summary_items_provisional ON summary_items (agent_id, item)
  WHERE provisional AND removed_version IS NULL;
-- Items that stand in for a model's, while they are in the document.
CREATE INDEX summary_items_revisit ON summary_items (agent_id)
  WHERE provisional AND removed_version IS NULL AND dropped_version IS NULL;

CREATE TABLE summary_item_ranges (
  agent_id       text COLLATE "C" NOT NULL,
  item           bigint NOT NULL,
  first_exchange bigint NOT NULL,
  last_exchange  bigint NOT NULL CHECK (last_exchange >= first_exchange),
  PRIMARY KEY (agent_id, item, first_exchange),
  FOREIGN KEY (agent_id, item) REFERENCES summary_items (agent_id, item) DEFERRABLE
);
CREATE INDEX summary_item_ranges_exchange ON summary_item_ranges (agent_id, first_exchange, last_exchange, item);

-- A model's answer, kept before it is applied, so that a crash pays for at most one more call.
CREATE TABLE model_answers (
  agent_id      text COLLATE "C" NOT NULL,
  journal_key   text COLLATE "C" NOT NULL,
  answer        text        NOT NULL,
  input_tokens  bigint      NOT NULL,
  output_tokens bigint      NOT NULL,
  created_at    timestamptz NOT NULL,
  PRIMARY KEY (agent_id, journal_key)
);
CREATE INDEX model_answers_age ON model_answers (created_at);

-- One row per attempt.
CREATE TABLE update_runs (
  run             bigint      GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  agent_id        text COLLATE "C" NOT NULL,
  lease_token     bigint      NOT NULL,
  attempt         bigint      NOT NULL,
  trigger_reason  text COLLATE "C" NOT NULL,
  outcome         text COLLATE "C" NOT NULL CHECK (outcome IN ('completed', 'failed', 'superseded')),
  path            text COLLATE "C",
  version         bigint,
  covers_after    bigint,
  covers_through  bigint,
  exchanges       bigint      NOT NULL DEFAULT 0,
  items_added     bigint      NOT NULL DEFAULT 0,
  items_dropped   bigint      NOT NULL DEFAULT 0,
  document_tokens bigint,
  truncated       boolean     NOT NULL DEFAULT false,
  provider        text COLLATE "C",
  model           text COLLATE "C",
  model_calls     bigint      NOT NULL DEFAULT 0,
  input_tokens    bigint      NOT NULL DEFAULT 0,
  output_tokens   bigint      NOT NULL DEFAULT 0,
  cost_microusd   bigint,                            -- NULL: the price is not known
  batched         boolean     NOT NULL DEFAULT false,      -- the answer came from a batch: half the price
  error_class     text COLLATE "C",
  error           text,
  started_at      timestamptz NOT NULL,
  finished_at     timestamptz NOT NULL
);
CREATE INDEX update_runs_time  ON update_runs (finished_at);
CREATE INDEX update_runs_agent ON update_runs (agent_id, run);
-- The spending of a day: of one agent, and of all.
CREATE INDEX update_runs_spent_agent ON update_runs (agent_id, finished_at)
  INCLUDE (model_calls, input_tokens, output_tokens, cost_microusd) WHERE model_calls > 0;
CREATE INDEX update_runs_spent ON update_runs (finished_at)
  INCLUDE (model_calls, input_tokens, output_tokens, cost_microusd) WHERE model_calls > 0;

-- Each firing of a schedule happens once: whoever inserts the slot fires it.
CREATE TABLE schedule_slots (
  name     text COLLATE "C" NOT NULL,
  slot     timestamptz NOT NULL,
  fired_at timestamptz NOT NULL,
  PRIMARY KEY (name, slot)
);

-- Batches at a provider: questions that may wait are asked together, at half the price.
-- A batch is written down before it is sent, so that a crash leaves a row to look for at the provider.
CREATE TABLE provider_batches (
  batch       bigint      GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  name        text COLLATE "C" NOT NULL UNIQUE,      -- what the provider is told to call it
  provider    text COLLATE "C" NOT NULL,
  model       text COLLATE "C" NOT NULL,
  state       text COLLATE "C" NOT NULL CHECK (state IN ('intent', 'submitted', 'closed')),
  provider_id text COLLATE "C",                      -- NULL: not known to be made
  requests    bigint      NOT NULL,
  looks       bigint      NOT NULL DEFAULT 0,        -- in this state
  next_at     timestamptz NOT NULL,                  -- when to look again
  created_at  timestamptz NOT NULL,
  closed_at   timestamptz,
  error_class text COLLATE "C",                      -- why it was closed without results
  CHECK (state <> 'submitted' OR provider_id IS NOT NULL),
  CHECK ((state = 'closed') = (closed_at IS NOT NULL))
);
CREATE INDEX provider_batches_open ON provider_batches (next_at) WHERE state <> 'closed';
CREATE INDEX provider_batches_closed ON provider_batches (closed_at) WHERE state = 'closed';
CREATE UNIQUE INDEX provider_batches_known ON provider_batches (provider, provider_id) WHERE provider_id IS NOT NULL;

-- Each state of a summary is put to a batch at most once: whatever comes of it, after that it is asked about directly.
CREATE TABLE batch_requests (
  agent_id       text COLLATE "C" NOT NULL REFERENCES agents (agent_id) DEFERRABLE,
  version        bigint      NOT NULL,               -- of the summary, as it was read
  covers_after   bigint      NOT NULL,
  covers_through bigint      NOT NULL,
  exchanges      text        NOT NULL,               -- JSON: the exchanges asked about
  revisited      text        NOT NULL,               -- JSON: the items to be replaced by the answer, if nothing was pending
  journal_key    text COLLATE "C" NOT NULL UNIQUE,   -- its id at the provider
  provider       text COLLATE "C" NOT NULL,
  model          text COLLATE "C" NOT NULL,
  body           text        NOT NULL,               -- the request; empty as soon as it isn't needed any more
  state          text COLLATE "C" NOT NULL
    CHECK (state IN ('waiting', 'out', 'answered', 'failed', 'late', 'withdrawn')),
  batch          bigint REFERENCES provider_batches (batch) DEFERRABLE,
  queued_at      timestamptz NOT NULL,
  ended_at       timestamptz,
  cost_microusd  bigint,                             -- what its answer cost; NULL: none, or the price is not known
  accounted_at   timestamptz,                        -- when a run told what it cost
  error_class    text COLLATE "C",
  PRIMARY KEY (agent_id, version, covers_after),
  CHECK ((state IN ('waiting', 'withdrawn')) = (batch IS NULL)),
  CHECK ((state IN ('waiting', 'out')) = (ended_at IS NULL))
);
CREATE INDEX batch_requests_waiting ON batch_requests (queued_at, agent_id) WHERE state = 'waiting';
CREATE INDEX batch_requests_open ON batch_requests (agent_id) WHERE ended_at IS NULL;
CREATE INDEX batch_requests_batch ON batch_requests (batch) WHERE batch IS NOT NULL;
CREATE INDEX batch_requests_ended ON batch_requests (ended_at) WHERE ended_at IS NOT NULL;

-- Recall: full-text search over the archive. Words only, and a word for the agent; the text itself stands in message_log.
-- Written behind the appends, agent by agent.
CREATE TABLE message_words (
  agent_id text COLLATE "C" NOT NULL REFERENCES agents (agent_id) DEFERRABLE,
  seq      bigint   NOT NULL,                        -- the message
  words    tsvector NOT NULL,
  PRIMARY KEY (agent_id, seq)
);
CREATE INDEX message_words_words ON message_words USING gin (words);

-- An agent's messages up to this one are in the index.
CREATE TABLE recall_marks (
  agent_id    text COLLATE "C" NOT NULL PRIMARY KEY REFERENCES agents (agent_id) DEFERRABLE,
  indexed_seq bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70);

-- The agents with messages behind their mark, in the order in which they are indexed.
CREATE SEQUENCE recall_turn;
CREATE TABLE recall_pending (
  agent_id text COLLATE "C" NOT NULL PRIMARY KEY REFERENCES agents (agent_id) DEFERRABLE,
  turn     bigint NOT NULL DEFAULT nextval('recall_turn')
) WITH (autovacuum_vacuum_scale_factor = 0.01);      -- rows come and go with the appends
CREATE INDEX recall_pending_turn ON recall_pending (turn);

-- What was said is kept out of the planner's statistics, which forgetting doesn't reach.
ALTER TABLE message_log ALTER payload SET STATISTICS 0;
ALTER TABLE message_words ALTER words SET STATISTICS 0;
ALTER TABLE exchange_log ALTER headline SET STATISTICS 0;
ALTER TABLE forks ALTER record SET STATISTICS 0;
ALTER TABLE summaries ALTER content SET STATISTICS 0;
ALTER TABLE summary_versions ALTER content SET STATISTICS 0;
ALTER TABLE summary_items ALTER text SET STATISTICS 0, ALTER brief SET STATISTICS 0, ALTER gist SET STATISTICS 0;
ALTER TABLE model_answers ALTER answer SET STATISTICS 0;
ALTER TABLE batch_requests ALTER body SET STATISTICS 0;

-- To be read with plain SQL.
CREATE VIEW agent_summary AS
  SELECT s.agent_id, s.content, coalesce(s.held_version, s.version) AS version, s.token_count, s.updated_at,
         coalesce(s.held_through, a.summarized_through) AS covers_through, a.first_exchange, a.pending_since
  FROM summaries s JOIN agents a ON a.agent_id = s.agent_id;
CREATE VIEW summary_documents AS SELECT agent_id, content, updated_at FROM summaries;
