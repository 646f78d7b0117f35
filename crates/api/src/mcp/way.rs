//! Choosing the source that is asked.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::OnceCell, time::Instant};

use super::{
    remote::Remote,
    source::{Source, SourceError},
};

/// How long watches go on with the source that was found last.
const FOUND_FOR: Duration = Duration::from_secs(5);

/// A database being opened.
pub type DatabaseOpening = Pin<Box<dyn Future<Output = Result<Arc<dyn Source>, SourceError>> + Send>>;

/// How the source is chosen.
pub enum Way {
    /// Always this one.
    Fixed(Arc<dyn Source>),
    /// The daemon while there is one, else the database. It is looked for at each question, as a failed one isn't asked again:
    /// hosts run for days, and daemons are restarted.
    Nearest(Nearest),
}

/// A daemon that may be running, and the database that it would use.
pub struct Nearest {
    daemon: Arc<Remote>,
    open: Box<dyn Fn() -> DatabaseOpening + Send + Sync>,
    database: OnceCell<Arc<dyn Source>>,
    found: Mutex<Option<CachedSource>>,
}

/// A source, and when it was found.
struct CachedSource {
    source: Arc<dyn Source>,
    at: Instant,
}

impl Way {
    /// `daemon` while it is running, else what `open` opens.
    pub fn nearest(daemon: Remote, open: impl Fn() -> DatabaseOpening + Send + Sync + 'static) -> Self {
        Self::Nearest(Nearest {
            daemon: Arc::new(daemon),
            open: Box::new(open),
            database: OnceCell::new(),
            found: Mutex::default(),
        })
    }

    /// The source to ask now.
    ///
    /// # Errors
    /// When there is neither a daemon nor a database.
    pub async fn source(&self) -> Result<Arc<dyn Source>, SourceError> {
        match self {
            Self::Fixed(source) => Ok(Arc::clone(source)),
            Self::Nearest(nearest) => nearest.find().await,
        }
    }

    /// As [`Self::source`], but for so long the one that was found last: for watches, which are many, ask all the time, and
    /// ask again when a daemon that has gone meanwhile doesn't answer. A question has one try.
    ///
    /// # Errors
    /// As [`Self::source`].
    pub async fn recent_source(&self) -> Result<Arc<dyn Source>, SourceError> {
        match self {
            Self::Fixed(source) => Ok(Arc::clone(source)),
            Self::Nearest(nearest) => match nearest.recent() {
                Some(source) => Ok(source),
                None => nearest.find().await,
            },
        }
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
        let found = CachedSource {
            source: Arc::clone(&source),
            at: Instant::now(),
        };
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        Ok(source)
    }

    fn recent(&self) -> Option<Arc<dyn Source>> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = found.as_ref().filter(|found| found.at.elapsed() < FOUND_FOR)?;
        Some(Arc::clone(&recent.source))
    }
}
