-- A ceiling in messages, and pins.

-- Messages of the exchange that are sent: metadata doesn't count.
ALTER TABLE exchange_log ADD COLUMN messages INTEGER NOT NULL DEFAULT 0;
UPDATE exchange_log SET messages = (SELECT count(*) FROM message_log m
  WHERE m.agent_id = exchange_log.source_agent_id AND m.exchange = exchange_log.exchange
  AND m.seq BETWEEN exchange_log.first_seq AND exchange_log.last_seq
  AND m.kind IN ('system', 'user', 'assistant', 'tool_call', 'tool_result'));

-- The ceiling in messages that the last append kept; 0: none.
ALTER TABLE agents ADD COLUMN max_messages INTEGER NOT NULL DEFAULT 0;

-- Messages that stay in view when their exchange has left the window: pinned by hand, or important to their session.
-- What comes from the messages alone; a rewind behind a message takes its row away.
CREATE TABLE pins (
  agent_id        TEXT    NOT NULL REFERENCES agents (agent_id),
  seq             INTEGER NOT NULL,                  -- the message
  source_agent_id TEXT    NOT NULL,                  -- whose message it is: a fork inherits
  exchange        INTEGER NOT NULL,
  session         INTEGER NOT NULL,                  -- the session of the exchange
  pinned          INTEGER NOT NULL CHECK (pinned IN (0, 1)),
  important       INTEGER NOT NULL CHECK (important IN (0, 1)),
  CHECK (pinned + important > 0),
  PRIMARY KEY (agent_id, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX pins_pinned ON pins (agent_id, seq) WHERE pinned = 1;
CREATE INDEX pins_session ON pins (agent_id, session, seq) WHERE important = 1;
CREATE INDEX pins_exchange ON pins (agent_id, exchange);
