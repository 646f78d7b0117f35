-- Items that a rollback or a rebuild removed and whose rows don't say so yet: they cover nothing any more. Runs of numbers; the rows
-- follow, some at a time.
CREATE TABLE withdrawals (
  agent_id   text COLLATE "C" NOT NULL REFERENCES agents (agent_id) DEFERRABLE,
  first_item bigint  NOT NULL,
  last_item  bigint  NOT NULL CHECK (last_item >= first_item),
  version    bigint  NOT NULL,                       -- the version that removed them
  reseals    boolean NOT NULL,                       -- whether their digests are made anew
  PRIMARY KEY (agent_id, first_item)
);
