//! Which source is asked.

use std::{future::Future, pin::Pin, sync::Arc};

use tokio::sync::OnceCell;

use super::{
    remote::Remote,
    source::{Source, SourceError},
};

/// A database being opened.
pub type Opening = Pin<Box<dyn Future<Output = Result<Arc<dyn Source>, SourceError>> + Send>>;

/// Which source is asked.
pub enum Way {
    /// Always this one.
    Fixed(Arc<dyn Source>),
    /// The daemon while there is one, else the database. It is looked for at each question: hosts run for days, and
    /// daemons are restarted.
    Nearest(Nearest),
}

/// A daemon that may be there, and the database it would use.
pub struct Nearest {
    daemon: Arc<Remote>,
    open: Box<dyn Fn() -> Opening + Send + Sync>,
    database: OnceCell<Arc<dyn Source>>,
}

impl Way {
    /// `daemon` while it is there, else what `open` opens.
    pub fn nearest(daemon: Remote, open: impl Fn() -> Opening + Send + Sync + 'static) -> Self {
        Self::Nearest(Nearest {
            daemon: Arc::new(daemon),
            open: Box::new(open),
            database: OnceCell::new(),
        })
    }

    /// The source to ask now.
    ///
    /// # Errors
    /// When there is neither a daemon nor a database.
    pub async fn source(&self) -> Result<Arc<dyn Source>, SourceError> {
        match self {
            Self::Fixed(source) => Ok(Arc::clone(source)),
            Self::Nearest(nearest) if nearest.daemon.is_there().await => {
                Ok(Arc::<Remote>::clone(&nearest.daemon))
            }
            Self::Nearest(nearest) => {
                let opened = nearest.database.get_or_try_init(|| (nearest.open)()).await;
                opened.map(Arc::clone)
            }
        }
    }
}
