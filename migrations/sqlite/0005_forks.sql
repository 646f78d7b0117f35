-- What a forked agent began with, as of the fork: a journal has to say it, and the agent's later life changes its rows.
CREATE TABLE forks (
  agent_id TEXT NOT NULL PRIMARY KEY REFERENCES agents (agent_id),
  record   TEXT NOT NULL                              -- JSON
) STRICT, WITHOUT ROWID;
