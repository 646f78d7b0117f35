-- Who may ask the daemons over HTTP. `digest` is the SHA-256 of the token in hexadecimal digits; the token itself is kept
-- nowhere. `reach` is JSON: "all", or the agents and projects. Revoked tokens stay, so that taking the last one back doesn't
-- open the interface to everybody.
CREATE TABLE access_tokens (
  name         text COLLATE "C" NOT NULL PRIMARY KEY,
  digest       text COLLATE "C" NOT NULL UNIQUE CHECK (length(digest) = 64),
  scope        text NOT NULL CHECK (scope IN ('read', 'write', 'admin')),
  reach        text NOT NULL,
  created_at   timestamptz NOT NULL,
  expires_at   timestamptz,
  revoked_at   timestamptz,
  last_used_at timestamptz
);
