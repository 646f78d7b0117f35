//! The worker, with a model and a database that fail as planned: throughout, the old summary stays until a new one is
//! there, each exchange is covered once, and the queue recovers when the trouble is over.

mod adversary;
mod ageing;
mod batches;
mod compaction;
mod crashes;
mod facts;
mod fallback;
mod faults;
mod gaps;
mod lineage;
mod live;
mod lives;
mod panics;
mod replies;
mod spend;
mod stop;
mod versions;
