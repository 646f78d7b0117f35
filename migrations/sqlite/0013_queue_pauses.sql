-- While there is a row, nothing is claimed: an operator has paused all updates. The name is always `all`.
CREATE TABLE queue_pauses (
  name      TEXT    NOT NULL PRIMARY KEY,
  paused_at INTEGER NOT NULL
) STRICT;
