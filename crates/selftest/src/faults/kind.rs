//! Kinds of faults and databases.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A daemon is killed (SIGKILL) and started again.
    Kill,
    /// A daemon is killed during a model call, and restarted at once.
    KillInCall,
    /// A daemon is killed during a model call and stays down: another one takes over.
    TakeOver,
    /// A daemon is stopped (SIGSTOP) for longer than its leases, then continues.
    Stall,
    /// A daemon is asked to end (SIGTERM) and restarted.
    Terminate,
    /// A daemon's clock jumps by up to an hour, forwards or back.
    ClockJump,
    /// The database's disk is full for a while.
    DiskFull,
    /// The server cuts connections (`pg_terminate_backend`).
    Cut,
    /// The server stops immediately (`pg_ctl stop -m immediate`) and is restarted.
    ServerCrash,
    /// The connection between one daemon and the server is cut, in one direction or both.
    ServerParted,
    /// The server's answers stop for all daemons, as behind a firewall that lost its state.
    ServerSilent,
    /// A commit isn't answered: it may have succeeded or not.
    CommitCut,
    /// The connection between one daemon and the model is cut, in one direction or both.
    ModelParted,
    /// Another program holds the file's write lock, mostly for longer than others wait for it.
    Locked,
    /// Power failure: some unsynced writes are lost, torn, or written without earlier ones.
    PowerCut,
    /// All daemons and a `recapd copy` are killed; the next copy has to produce the database that they continue with.
    CopyKill,
}

impl Kind {
    pub const ALL: [Self; 16] = [
        Self::Kill,
        Self::KillInCall,
        Self::TakeOver,
        Self::Stall,
        Self::Terminate,
        Self::ClockJump,
        Self::DiskFull,
        Self::Cut,
        Self::ServerCrash,
        Self::ServerParted,
        Self::ServerSilent,
        Self::CommitCut,
        Self::ModelParted,
        Self::Locked,
        Self::PowerCut,
        Self::CopyKill,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::KillInCall => "kill-in-call",
            Self::TakeOver => "take-over",
            Self::Stall => "stall",
            Self::Terminate => "terminate",
            Self::ClockJump => "clock-jump",
            Self::DiskFull => "disk-full",
            Self::Cut => "cut",
            Self::ServerCrash => "server-crash",
            Self::ServerParted => "server-parted",
            Self::ServerSilent => "server-silent",
            Self::CommitCut => "commit-cut",
            Self::ModelParted => "model-parted",
            Self::Locked => "locked",
            Self::PowerCut => "power-cut",
            Self::CopyKill => "copy-kill",
        }
    }

    pub(super) fn weight(self) -> u32 {
        match self {
            Self::Kill | Self::Cut | Self::PowerCut => 5,
            Self::KillInCall | Self::Stall | Self::ClockJump | Self::CommitCut => 3,
            Self::Terminate | Self::DiskFull | Self::ServerCrash | Self::ServerParted | Self::ModelParted => {
                2
            }
            // These last many seconds.
            Self::TakeOver | Self::ServerSilent | Self::Locked | Self::CopyKill => 1,
        }
    }

    /// Returns true if it can happen on that database.
    pub fn is_of(self, database: Database) -> bool {
        match self {
            Self::TakeOver
            | Self::Cut
            | Self::ServerCrash
            | Self::ServerParted
            | Self::ServerSilent
            | Self::CommitCut => database == Database::Postgres,
            Self::Locked | Self::PowerCut => database == Database::Sqlite,
            Self::Kill
            | Self::KillInCall
            | Self::Stall
            | Self::Terminate
            | Self::ClockJump
            | Self::DiskFull
            | Self::ModelParted
            | Self::CopyKill => true,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Database {
    /// One daemon on a file.
    Sqlite,
    /// Three daemons on a server.
    Postgres,
}

impl Database {
    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }

    pub fn daemons(self) -> usize {
        match self {
            Self::Sqlite => 1,
            Self::Postgres => 3,
        }
    }
}
