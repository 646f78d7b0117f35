//! `recapd serve`: the daemon.
