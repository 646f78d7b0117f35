//! What a way in made of a snapshot, so that it can answer with it again.

use std::{
    any::Any,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Something made of a snapshot once, which lives as long as that. It is nothing of its own: two snapshots are the same
/// whatever was made of them, and a copy starts without.
#[derive(Debug, Default)]
pub struct Kept {
    made: OnceLock<Box<dyn Any + Send + Sync>>,
    bytes: AtomicUsize,
}

impl Kept {
    /// What was made, or else what `make` makes now. `None` if somebody keeps another type here.
    pub fn get_or_make<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Option<&T> {
        self.made.get_or_init(|| Box::new(make())).downcast_ref()
    }

    /// What was made; `None` if nothing was, or another type.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.made.get()?.downcast_ref()
    }

    pub(super) fn grow(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Clone for Kept {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Kept {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Kept {}
