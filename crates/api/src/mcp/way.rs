//! Chooses the source that answers: the daemon's own parts, another daemon, or the database.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::OnceCell, time::Instant};

use super::{
    local::{CallerScope, Local},
    remote::Remote,
    source::{Source, SourceError},
};
use crate::access::{Access, Caller};

/// For this long, watches keep using the source that was found last.
const FOUND_FOR: Duration = Duration::from_secs(5);

pub type DatabaseOpening = Pin<Box<dyn Future<Output = Result<Arc<dyn Source>, SourceError>> + Send>>;

pub enum Way {
    /// Always the same source.
    Fixed(Arc<dyn Source>),
    /// The daemon while one runs, otherwise the database. Chosen anew for each question: hosts run for days while
    /// daemons are restarted, and a failed question isn't repeated.
    Nearest(Nearest),
    /// The daemon's own parts. Each caller sees what its token allows.
    DaemonParts(DaemonParts),
}

/// The daemon's own parts, and the rules that say what each caller may see.
pub struct DaemonParts {
    pub local: Local,
    pub access: Arc<Access>,
}

/// A daemon that may be running, and the database that it would use.
pub struct Nearest {
    daemon: Arc<Remote>,
    open: Box<dyn Fn() -> DatabaseOpening + Send + Sync>,
    database: OnceCell<Arc<dyn Source>>,
    cached: Mutex<Option<CachedSource>>,
}

struct CachedSource {
    source: Arc<dyn Source>,
    at: Instant,
}

impl Way {
    /// Uses `daemon` while it runs, otherwise the source that `open` opens.
    pub fn nearest(daemon: Remote, open: impl Fn() -> DatabaseOpening + Send + Sync + 'static) -> Self {
        Self::Nearest(Nearest {
            daemon: Arc::new(daemon),
            open: Box::new(open),
            database: OnceCell::new(),
            cached: Mutex::default(),
        })
    }

    /// Returns the source for the next question of `caller`. `caller` is `None` over standard input and output.
    ///
    /// # Errors
    /// If there is neither a daemon nor a database.
    pub async fn source(&self, caller: Option<&Arc<Caller>>) -> Result<Arc<dyn Source>, SourceError> {
        match self {
            Self::Fixed(source) => Ok(Arc::clone(source)),
            Self::Nearest(nearest) => nearest.find().await,
            Self::DaemonParts(parts) => parts.source(caller),
        }
    }

    /// Like [`Self::source`], but keeps using the last source for `FOUND_FOR`. Watches use this: they are many, ask all
    /// the time, and ask again if a daemon has stopped in the meantime. A question isn't asked again, so it needs a
    /// source that answers now.
    ///
    /// # Errors
    /// The errors of [`Self::source`].
    pub async fn recent_source(&self, caller: Option<&Arc<Caller>>) -> Result<Arc<dyn Source>, SourceError> {
        match self {
            Self::Nearest(nearest) => match nearest.recent() {
                Some(source) => Ok(source),
                None => nearest.find().await,
            },
            Self::Fixed(_) | Self::DaemonParts(_) => self.source(caller).await,
        }
    }
}

impl DaemonParts {
    fn source(&self, caller: Option<&Arc<Caller>>) -> Result<Arc<dyn Source>, SourceError> {
        let Some(caller) = caller else {
            return Err(SourceError::Refused("the request has no known caller".to_owned()));
        };
        let scope = CallerScope { access: Arc::clone(&self.access), caller: Arc::clone(caller) };
        Ok(Arc::new(Local { scope: Some(scope), ..self.local.clone() }))
    }
}

impl Nearest {
    async fn find(&self) -> Result<Arc<dyn Source>, SourceError> {
        let source: Arc<dyn Source> = if self.daemon.is_there().await {
            Arc::<Remote>::clone(&self.daemon)
        } else {
            let opened = self.database.get_or_try_init(|| (self.open)()).await?;
            Arc::clone(opened)
        };
        let cached = CachedSource { source: Arc::clone(&source), at: Instant::now() };
        *self.cached.lock().unwrap_or_else(PoisonError::into_inner) = Some(cached);
        Ok(source)
    }

    fn recent(&self) -> Option<Arc<dyn Source>> {
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = cached.as_ref().filter(|cached| cached.at.elapsed() < FOUND_FOR)?;
        Some(Arc::clone(&recent.source))
    }
}
