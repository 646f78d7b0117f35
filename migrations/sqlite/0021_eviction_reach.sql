-- When an exchange left the window is looked up by its number: all of its agent's evictions were read for each exchange, and in
-- the view `messages` for each message. Those whose lengths have as many digits are looked through from as far back as they
-- can reach. The last one that begins before isn't always it: after a boundary that moved back, ranges lie over each other.
CREATE INDEX evictions_reach
  ON evictions (agent_id, length(CAST(through_exchange - from_exchange AS text)), from_exchange);

-- The views again. All else, triggers too, is word for word that of migrations 19 and 11, but that of several evictions the
-- latest time is told, as over HTTP.
DROP VIEW messages;
CREATE VIEW messages AS
  SELECT m.seq AS id, e.agent_id,
         CASE m.kind WHEN 'tool_call' THEN 'assistant' WHEN 'tool_result' THEN 'tool' ELSE m.kind END AS role,
         CASE WHEN m.forgotten_at IS NOT NULL THEN NULL
              WHEN NOT json_valid(m.payload) THEN m.payload
              WHEN json_type(m.payload, '$.content') IS NOT 'text' THEN m.payload
              WHEN m.payload GLOB '*\u[dD][89a-fA-F]*'
                   AND (replace(json_extract(m.payload, '$.content'), char(65533), '') GLOB '*' || char(65533) || '*'
                        OR instr(json_extract(m.payload, '$.content'), char(0)))
              THEN m.payload
              ELSE json_extract(m.payload, '$.content') END AS content,
         coalesce(r.tokens, m.tokens) AS token_count,
         m.said_at AS created_at,
         e.set_aside_at IS NULL AND (e.exchange >= a.first_exchange OR e.exchange IS a.preamble_exchange)
           AS in_sliding_window,
         CASE WHEN e.set_aside_at IS NULL AND e.exchange < a.first_exchange AND e.exchange IS NOT a.preamble_exchange
              THEN (SELECT max((SELECT max(v.evicted_at) FROM evictions v WHERE v.agent_id = e.agent_id
                      AND length(CAST(v.through_exchange - v.from_exchange AS text)) = d.column1
                      AND v.from_exchange BETWEEN e.exchange - d.column2 AND e.exchange AND v.through_exchange >= e.exchange))
                    FROM (VALUES (1, 9), (2, 99), (3, 999), (4, 9999), (5, 99999), (6, 999999), (7, 9999999), (8, 99999999)) AS d)
              END AS evicted_at,
         e.exchange AS exchange_id,
         m.kind, m.format, m.speaker, m.client_id, e.session AS session_id, e.set_aside_at
  FROM exchange_log e JOIN agents a ON a.agent_id = e.agent_id
  JOIN message_log m ON m.agent_id = e.source_agent_id AND m.seq BETWEEN e.first_seq AND e.last_seq
                    AND m.exchange = e.exchange
  LEFT JOIN recounts r ON r.agent_id = e.agent_id AND r.seq = m.seq;

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

DROP VIEW exchanges;
CREATE VIEW exchanges AS
  SELECT e.exchange AS id, e.agent_id, e.first_seq AS start_msg_id, e.last_seq AS end_msg_id,
         e.tokens AS token_count, e.opened_at AS created_at,
         CASE WHEN e.set_aside_at IS NULL AND e.exchange < a.first_exchange AND e.exchange IS NOT a.preamble_exchange
              THEN (SELECT max((SELECT max(v.evicted_at) FROM evictions v WHERE v.agent_id = e.agent_id
                      AND length(CAST(v.through_exchange - v.from_exchange AS text)) = d.column1
                      AND v.from_exchange BETWEEN e.exchange - d.column2 AND e.exchange AND v.through_exchange >= e.exchange))
                    FROM (VALUES (1, 9), (2, 99), (3, 999), (4, 9999), (5, 99999), (6, 999999), (7, 9999999), (8, 99999999)) AS d)
              END AS evicted_at,
         e.set_aside_at IS NULL AND (e.exchange >= a.first_exchange OR e.exchange IS a.preamble_exchange)
           AS in_sliding_window,
         e.role, e.state, e.session AS session_id, e.set_aside_at
  FROM exchange_log e JOIN agents a ON a.agent_id = e.agent_id;

CREATE TRIGGER exchanges_insert INSTEAD OF INSERT ON exchanges BEGIN
  SELECT RAISE(ABORT, 'exchanges are made by recapd: insert into messages'); END;
CREATE TRIGGER exchanges_update INSTEAD OF UPDATE ON exchanges BEGIN
  SELECT RAISE(ABORT, 'exchanges are made by recapd and can only be read'); END;
CREATE TRIGGER exchanges_delete INSTEAD OF DELETE ON exchanges BEGIN
  SELECT RAISE(ABORT, 'exchanges are made by recapd and can only be read'); END;
