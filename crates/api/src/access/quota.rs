//! Divides a pool that all clients share: no token gets more than half of the pool, and no address without a token
//! does.
//!
//! Invariant: a share returns to the pool when it is dropped. The pool keeps no entry for a holder that holds nothing.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use recapd_core::domain::access::TokenName;

/// One holder gets at most 1/2 of a pool.
pub const SHARE_OF: usize = 2;

/// The owner of a share: a token, whatever address it is used from, or an address without a token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder(Arc<str>);

impl Holder {
    /// Returns the holder for this token; without a token, for the clients at this address.
    pub fn of(token: Option<&TokenName>, peer: impl fmt::Display) -> Self {
        Self(match token {
            Some(token) => format!("token {token}").into(),
            None => format!("peer {peer}").into(),
        })
    }

    fn has_token(&self) -> bool {
        self.0.starts_with("token ")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lack {
    #[error("everything is in use")]
    All,
    /// The holder already has its share.
    #[error("this token, or this address if it has no token, already uses its share")]
    Share,
}

/// A pool that all clients use.
pub struct Quota {
    total: usize,
    share: usize,
    used: Mutex<HashMap<Holder, usize>>,
}

impl Quota {
    /// Creates a pool of `total`. One holder gets at most half of it, rounded up.
    pub fn new(total: usize) -> Arc<Self> {
        Arc::new(Self { total, share: total.div_ceil(SHARE_OF), used: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Holder, usize>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `amount` from the pool for `holder`.
    ///
    /// # Errors
    /// [`Lack`].
    pub fn take(self: &Arc<Self>, holder: &Holder, amount: usize) -> Result<QuotaShare, Lack> {
        let mut share = QuotaShare { quota: Arc::clone(self), holder: holder.clone(), amount: 0 };
        share.grow(amount)?;
        Ok(share)
    }

    fn add(&self, holder: &Holder, amount: usize) -> Result<(), Lack> {
        if amount == 0 {
            return Ok(());
        }
        let mut used = self.lock();
        let used_by_holder = used.get(holder).copied().unwrap_or_default();
        if used_by_holder.saturating_add(amount) > self.share {
            return Err(Lack::Share);
        }
        // There are few holders at a time.
        let used_by_all: usize = used.values().sum();
        if used_by_all.saturating_add(amount) > self.total {
            return Err(Lack::All);
        }
        used.insert(holder.clone(), used_by_holder + amount);
        Ok(())
    }

    fn give_back(&self, holder: &Holder, amount: usize) {
        let mut used = self.lock();
        if let Some(used_by_holder) = used.get_mut(holder) {
            *used_by_holder = used_by_holder.saturating_sub(amount);
            if *used_by_holder == 0 {
                used.remove(holder);
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn left(&self) -> usize {
        self.total - self.lock().values().sum::<usize>()
    }
}

/// A holder's part of a pool. Returns to the pool when dropped.
pub struct QuotaShare {
    quota: Arc<Quota>,
    holder: Holder,
    amount: usize,
}

impl QuotaShare {
    /// Takes `amount` more.
    ///
    /// # Errors
    /// [`Lack`]. The share then keeps its former amount.
    pub fn grow(&mut self, amount: usize) -> Result<(), Lack> {
        self.quota.add(&self.holder, amount)?;
        self.amount += amount;
        Ok(())
    }

    /// True unless `other` has another token. The address of a client without a token may change.
    pub fn is_also_of(&self, other: &Holder) -> bool {
        self.holder == *other || !(self.holder.has_token() || other.has_token())
    }

    /// Like [`Self::grow`], but lets this one share grow at most to what one holder may have.
    ///
    /// # Errors
    /// [`Lack`].
    pub fn grow_within(&mut self, amount: usize) -> Result<(), Lack> {
        self.grow(amount.min(self.quota.share.saturating_sub(self.amount)))
    }
}

impl Drop for QuotaShare {
    fn drop(&mut self) {
        if self.amount > 0 {
            self.quota.give_back(&self.holder, self.amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_gets_half_and_gives_it_back() {
        let token: TokenName = "a".parse().unwrap();
        let (one, other) = (Holder::of(Some(&token), "::1"), Holder::of(None, "::1"));
        assert_eq!(one, Holder::of(Some(&token), "::2"), "wherever it is sent from");
        let quota = Quota::new(5);
        let mut held = quota.take(&one, 1).unwrap();
        held.grow(2).unwrap();
        assert_eq!(held.grow(1), Err(Lack::Share));
        assert_eq!(quota.take(&one, 1).err(), Some(Lack::Share));
        let rest = quota.take(&other, 2).unwrap();
        assert_eq!(quota.take(&other, 1).err(), Some(Lack::All));
        drop(held);
        assert_eq!(quota.left(), 3);
        drop(rest);
        assert!(quota.lock().is_empty());
        assert!(Quota::new(1).take(&one, 1).is_ok());
    }
}
