//! What goes wrong, and where.

use serde::{Deserialize, Serialize};

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A daemon is killed (SIGKILL) and started again.
    Kill,
    /// A daemon is killed while a model thinks, and started again at once.
    KillInCall,
    /// A daemon is killed while a model thinks, and stays away: another one takes over.
    TakeOver,
    /// A daemon stands still (SIGSTOP) beyond its leases, then goes on as if nothing had happened.
    Stall,
    /// A daemon is asked to end (SIGTERM) and started again.
    Terminate,
    /// The clock of a daemon jumps, by up to an hour, forwards or back.
    ClockJump,
    /// The disk of the database is full for a while.
    DiskFull,
    /// The server cuts connections (`pg_terminate_backend`).
    Cut,
    /// The server ends without a goodbye (`pg_ctl stop -m immediate`) and is started again.
    ServerCrash,
    /// Between one daemon and the server one direction is cut, or both.
    ServerParted,
    /// The server says nothing to anybody, as behind a firewall that forgets.
    ServerSilent,
    /// A commit isn't answered: it may be made or not.
    CommitCut,
    /// Between one daemon and the model one direction is cut, or both.
    ModelParted,
    /// Another program holds the file's write lock, longer than anybody waits for it.
    Locked,
    /// The power fails: of what wasn't synced some is lost, torn, or written without what came before it.
    PowerCut,
    /// All daemons are killed, a `recapd copy` is killed, and the next one has to make the database that they go on with.
    CopyKill,
}

impl Kind {
    /// All of them.
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

    /// As the command line spells it.
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

    /// How often it is drawn, beside the others.
    pub(super) fn weight(self) -> u32 {
        match self {
            Self::Kill | Self::Cut | Self::PowerCut => 5,
            Self::KillInCall | Self::Stall | Self::ClockJump | Self::CommitCut => 3,
            Self::Terminate | Self::DiskFull | Self::ServerCrash | Self::ServerParted | Self::ModelParted => {
                2
            }
            // These last for many seconds.
            Self::TakeOver | Self::ServerSilent | Self::Locked | Self::CopyKill => 1,
        }
    }

    /// Whether it can happen over that database.
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

/// Under the daemons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Database {
    /// One daemon on a file.
    Sqlite,
    /// Three daemons on a server.
    Postgres,
}

impl Database {
    /// As the command line spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }

    /// So many daemons share it.
    pub fn daemons(self) -> usize {
        match self {
            Self::Sqlite => 1,
            Self::Postgres => 3,
        }
    }
}
