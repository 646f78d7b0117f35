-- Items that a rollback or a rebuild removed and whose rows don't say so yet: they cover nothing any more. Runs of numbers; the rows
-- follow, some at a time.
CREATE TABLE withdrawals (
  agent_id   TEXT    NOT NULL REFERENCES agents (agent_id),
  first_item INTEGER NOT NULL,
  last_item  INTEGER NOT NULL CHECK (last_item >= first_item),
  version    INTEGER NOT NULL,                       -- the version that removed them
  reseals    INTEGER NOT NULL CHECK (reseals IN (0, 1)), -- whether their digests are made anew
  PRIMARY KEY (agent_id, first_item)
) STRICT, WITHOUT ROWID;
