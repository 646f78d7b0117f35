-- Direct SQL: agents insert into the view `messages`, and read it and its sisters. docs/sql.md tells them how.

-- What agents inserted, until the daemon has appended it. What it can't append stays, with the reason.
CREATE TABLE message_inbox (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,     -- the order of arrival; never used again
  agent_id    TEXT,
  role        TEXT,
  content     TEXT,
  format      TEXT,
  speaker     TEXT,
  client_id   TEXT,
  said_at     INTEGER,
  received_at INTEGER NOT NULL,
  refused_at  INTEGER,                               -- NULL: it waits
  refusal     TEXT,
  CHECK ((refused_at IS NULL) = (refusal IS NULL))
) STRICT;
CREATE INDEX message_inbox_waiting ON message_inbox (id) WHERE refused_at IS NULL;
CREATE INDEX message_inbox_refused ON message_inbox (id) WHERE refused_at IS NOT NULL;

-- Seed 000's table: where each message stands. What was set aside by a rewind is neither in the window nor evicted.
CREATE VIEW messages AS
  SELECT m.seq AS id, e.agent_id,
         CASE m.kind WHEN 'tool_call' THEN 'assistant' WHEN 'tool_result' THEN 'tool' ELSE m.kind END AS role,
         CASE WHEN m.forgotten_at IS NOT NULL THEN NULL
              WHEN NOT json_valid(m.payload) THEN m.payload
              WHEN json_type(m.payload, '$.content') = 'text' THEN json_extract(m.payload, '$.content')
              ELSE m.payload END AS content,
         coalesce(r.tokens, m.tokens) AS token_count,
         m.said_at AS created_at,
         e.set_aside_at IS NULL AND (e.exchange >= a.first_exchange OR e.exchange IS a.preamble_exchange)
           AS in_sliding_window,
         CASE WHEN e.set_aside_at IS NULL AND e.exchange < a.first_exchange AND e.exchange IS NOT a.preamble_exchange
              THEN (SELECT v.evicted_at FROM evictions v WHERE v.agent_id = e.agent_id
                    AND e.exchange BETWEEN v.from_exchange AND v.through_exchange ORDER BY v.eviction DESC LIMIT 1)
              END AS evicted_at,
         e.exchange AS exchange_id,
         m.kind, m.format, m.speaker, m.client_id, e.session AS session_id, e.set_aside_at
  FROM exchange_log e JOIN agents a ON a.agent_id = e.agent_id
  JOIN message_log m ON m.agent_id = e.source_agent_id AND m.seq BETWEEN e.first_seq AND e.last_seq
                    AND m.exchange = e.exchange
  LEFT JOIN recounts r ON r.agent_id = e.agent_id AND r.seq = m.seq;

CREATE VIEW exchanges AS
  SELECT e.exchange AS id, e.agent_id, e.first_seq AS start_msg_id, e.last_seq AS end_msg_id,
         e.tokens AS token_count, e.opened_at AS created_at,
         CASE WHEN e.set_aside_at IS NULL AND e.exchange < a.first_exchange AND e.exchange IS NOT a.preamble_exchange
              THEN (SELECT v.evicted_at FROM evictions v WHERE v.agent_id = e.agent_id
                    AND e.exchange BETWEEN v.from_exchange AND v.through_exchange ORDER BY v.eviction DESC LIMIT 1)
              END AS evicted_at,
         e.set_aside_at IS NULL AND (e.exchange >= a.first_exchange OR e.exchange IS a.preamble_exchange)
           AS in_sliding_window,
         e.role, e.state, e.session AS session_id, e.set_aside_at
  FROM exchange_log e JOIN agents a ON a.agent_id = e.agent_id;

CREATE VIEW refused_messages AS
  SELECT id, agent_id, role, content, format, speaker, client_id, received_at AS created_at, refused_at, refusal AS reason
  FROM message_inbox WHERE refused_at IS NOT NULL;

CREATE TRIGGER messages_insert INSTEAD OF INSERT ON messages BEGIN
  SELECT RAISE(ABORT, 'the message is longer than 4194304 bytes: keep large texts elsewhere and insert what says where')
    WHERE coalesce(length(CAST(NEW.content AS BLOB)), 0) + coalesce(length(CAST(NEW.agent_id AS BLOB)), 0)
        + coalesce(length(CAST(NEW.role AS BLOB)), 0) + coalesce(length(CAST(NEW.format AS BLOB)), 0)
        + coalesce(length(CAST(NEW.speaker AS BLOB)), 0) + coalesce(length(CAST(NEW.client_id AS BLOB)), 0) > 4194304;
  -- By their numbers, so that an insert costs the same however many wait.
  SELECT RAISE(ABORT, '100000 messages wait to be taken in: is recapd serve running on this database?')
    WHERE (SELECT max(id) FROM message_inbox)
        - (SELECT min(id) FROM message_inbox WHERE refused_at IS NULL) >= 99999;
  SELECT RAISE(ABORT, 'created_at is no time: give milliseconds or seconds since 1970, or a text such as 2026-11-20T08:40:00Z')
    WHERE NEW.created_at IS NOT NULL AND coalesce(CASE typeof(NEW.created_at)
        WHEN 'text' THEN julianday(NEW.created_at) NOT BETWEEN 1721425.5 AND 5373484.5
        WHEN 'blob' THEN 1
        ELSE abs(NEW.created_at) > 253402300799999 END, 1);
  INSERT INTO message_inbox (agent_id, role, content, format, speaker, client_id, said_at, received_at)
    VALUES (NEW.agent_id, NEW.role, NEW.content, NEW.format, NEW.speaker, NEW.client_id,
      CASE typeof(NEW.created_at)
        WHEN 'null' THEN NULL
        WHEN 'text' THEN CAST(round((julianday(NEW.created_at) - 2440587.5) * 86400000.0) AS INTEGER)
        ELSE CAST(NEW.created_at * CASE WHEN abs(NEW.created_at) < 100000000000 THEN 1000 ELSE 1 END AS INTEGER) END,
      CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER));
END;

CREATE TRIGGER messages_update INSTEAD OF UPDATE ON messages BEGIN
  SELECT RAISE(ABORT, 'messages are never changed; the window and its exchanges are kept by recapd'); END;
CREATE TRIGGER messages_delete INSTEAD OF DELETE ON messages BEGIN
  SELECT RAISE(ABORT, 'messages are never deleted; recapd forget makes tombstones of them'); END;
CREATE TRIGGER exchanges_insert INSTEAD OF INSERT ON exchanges BEGIN
  SELECT RAISE(ABORT, 'exchanges are made by recapd: insert into messages'); END;
CREATE TRIGGER exchanges_update INSTEAD OF UPDATE ON exchanges BEGIN
  SELECT RAISE(ABORT, 'exchanges are made by recapd and can only be read'); END;
CREATE TRIGGER exchanges_delete INSTEAD OF DELETE ON exchanges BEGIN
  SELECT RAISE(ABORT, 'exchanges are made by recapd and can only be read'); END;
CREATE TRIGGER agent_summary_insert INSTEAD OF INSERT ON agent_summary BEGIN
  SELECT RAISE(ABORT, 'summaries are written by recapd and can only be read'); END;
CREATE TRIGGER agent_summary_update INSTEAD OF UPDATE ON agent_summary BEGIN
  SELECT RAISE(ABORT, 'summaries are written by recapd and can only be read'); END;
CREATE TRIGGER agent_summary_delete INSTEAD OF DELETE ON agent_summary BEGIN
  SELECT RAISE(ABORT, 'summaries are written by recapd and can only be read'); END;
CREATE TRIGGER summary_documents_insert INSTEAD OF INSERT ON summary_documents BEGIN
  SELECT RAISE(ABORT, 'summaries are written by recapd and can only be read'); END;
CREATE TRIGGER summary_documents_update INSTEAD OF UPDATE ON summary_documents BEGIN
  SELECT RAISE(ABORT, 'summaries are written by recapd and can only be read'); END;
CREATE TRIGGER summary_documents_delete INSTEAD OF DELETE ON summary_documents BEGIN
  SELECT RAISE(ABORT, 'summaries are written by recapd and can only be read'); END;
CREATE TRIGGER refused_messages_insert INSTEAD OF INSERT ON refused_messages BEGIN
  SELECT RAISE(ABORT, 'refused messages can only be read: insert into messages'); END;
CREATE TRIGGER refused_messages_update INSTEAD OF UPDATE ON refused_messages BEGIN
  SELECT RAISE(ABORT, 'refused messages can only be read: insert the mended one into messages'); END;
CREATE TRIGGER refused_messages_delete INSTEAD OF DELETE ON refused_messages BEGIN
  SELECT RAISE(ABORT, 'refused messages can only be read; recapd keeps the last 10000'); END;
