-- Who may ask the daemons over HTTP. `digest` is the SHA-256 of the token in hexadecimal digits; the token itself is kept
-- nowhere. `reach` is JSON: "all", or the agents and projects. Revoked tokens stay, so that taking the last one back doesn't
-- open the interface to everybody.
CREATE TABLE access_tokens (
  name         TEXT    NOT NULL PRIMARY KEY,
  digest       TEXT    NOT NULL UNIQUE CHECK (length(digest) = 64),
  scope        TEXT    NOT NULL CHECK (scope IN ('read', 'write', 'admin')),
  reach        TEXT    NOT NULL,
  created_at   INTEGER NOT NULL,
  expires_at   INTEGER,
  revoked_at   INTEGER,
  last_used_at INTEGER
) STRICT;
