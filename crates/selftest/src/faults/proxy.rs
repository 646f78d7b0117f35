//! A connection that can be cut: it passes nothing, or one direction only, or loses the answer to a commit. Held data
//! passes when the connection is open again, like retransmitted packets.

use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split},
    net::{TcpListener, TcpStream, UnixStream},
    sync::watch,
    task::JoinSet,
};

const CHUNK_BYTES: usize = 16 * 1024;
/// The end of a commit's completion in PostgreSQL's protocol.
const COMMIT: &[u8] = b"COMMIT\0";

/// The server that a proxy forwards to.
#[derive(Clone)]
pub(super) enum Far {
    Socket(PathBuf),
    Tcp(SocketAddr),
}

/// The traffic that passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProxyFlow {
    Open,
    /// Questions pass, answers don't.
    Unanswered,
    /// Answers pass, questions don't.
    Unasked,
    Silent,
}

impl ProxyFlow {
    /// The flows of a partition.
    pub(super) const PARTED: [Self; 3] = [Self::Unanswered, Self::Unasked, Self::Silent];

    fn passes(self, way: Direction) -> bool {
        match self {
            Self::Open => true,
            Self::Unanswered => way == Direction::Question,
            Self::Unasked => way == Direction::Answer,
            Self::Silent => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Question,
    Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum CommitFate {
    Answered = 0,
    /// It arrives, and the connection closes without an answer.
    Unanswered = 1,
    /// The connection closes before it arrives.
    Unasked = 2,
}

/// The proxy of one daemon. Clones share it.
#[derive(Clone)]
pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    flow: watch::Sender<ProxyFlow>,
    next_commit: Arc<AtomicU8>,
}

impl Proxy {
    /// Creates a proxy to `far`. The returned future forwards everything.
    pub(super) async fn to(far: Far) -> io::Result<(Self, impl Future<Output = ()> + Send + use<>)> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let line = Self {
            address: listener.local_addr()?,
            flow: watch::Sender::new(ProxyFlow::Open),
            next_commit: Arc::new(AtomicU8::new(CommitFate::Answered as u8)),
        };
        let of_line = line.clone();
        let serving = async move {
            let mut connections = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                let (line, far) = (of_line.clone(), far.clone());
                // Both ends already know of a broken connection.
                connections.spawn(async move { drop(line.connect(near, far).await) });
                while connections.try_join_next().is_some() {}
            }
        };
        Ok((line, serving))
    }

    /// Sets the traffic that passes from now on.
    pub(super) fn set(&self, flow: ProxyFlow) {
        self.flow.send_replace(flow);
    }

    pub(super) fn doom_commit(&self, fate: CommitFate) {
        self.next_commit.store(fate as u8, Ordering::SeqCst);
    }

    /// Returns true if a commit met its fate. Later commits are answered.
    pub(super) fn spare_commits(&self) -> bool {
        self.next_commit.swap(CommitFate::Answered as u8, Ordering::SeqCst) == CommitFate::Answered as u8
    }

    async fn connect(&self, near: TcpStream, far: Far) -> io::Result<()> {
        near.set_nodelay(true)?;
        match far {
            Far::Socket(path) => self.pass(near, UnixStream::connect(path).await?).await,
            Far::Tcp(address) => self.pass(near, TcpStream::connect(address).await?).await,
        }
    }

    async fn pass<F: AsyncRead + AsyncWrite>(&self, near: TcpStream, far: F) -> io::Result<()> {
        let ((near_in, near_out), (far_in, far_out)) = (split(near), split(far));
        let doomed = AtomicU8::new(CommitFate::Answered as u8);
        tokio::try_join!(
            self.pump(near_in, far_out, Direction::Question, &doomed),
            self.pump(far_in, near_out, Direction::Answer, &doomed),
        )?;
        Ok(())
    }

    async fn pump(
        &self,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
        way: Direction,
        doomed: &AtomicU8,
    ) -> io::Result<()> {
        let (mut flow, mut chunk) = (self.flow.subscribe(), vec![0; CHUNK_BYTES]);
        loop {
            let length = from.read(&mut chunk).await?;
            let part = chunk.get(..length).unwrap_or_default();
            // It can't fail: this proxy holds the sender.
            drop(flow.wait_for(|flow| flow.passes(way)).await);
            if length == 0 {
                return to.shutdown().await;
            }
            match way {
                Direction::Question if part.ends_with(COMMIT) => self.meet(doomed)?,
                Direction::Answer if doomed.load(Ordering::SeqCst) != CommitFate::Answered as u8 => {
                    return Err(lost());
                }
                _ => {}
            }
            to.write_all(part).await?;
        }
    }

    /// Applies the pending fate to a commit.
    fn meet(&self, doomed: &AtomicU8) -> io::Result<()> {
        let fate = self.next_commit.swap(CommitFate::Answered as u8, Ordering::SeqCst);
        if fate == CommitFate::Unasked as u8 {
            return Err(lost());
        }
        if fate != CommitFate::Answered as u8 {
            doomed.store(fate, Ordering::SeqCst);
        }
        Ok(())
    }
}

fn lost() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "the line is cut")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A proxy to a server that answers.
    async fn line() -> (Proxy, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (line, serving) = Proxy::to(Far::Tcp(address)).await.unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(serving);
        tasks.spawn(async move {
            let mut echoes = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                echoes.spawn(async move {
                    let (mut near_in, mut near_out) = split(near);
                    drop(tokio::io::copy(&mut near_in, &mut near_out).await);
                });
            }
        });
        (line, tasks)
    }

    async fn ask(connection: &mut TcpStream, question: &[u8]) -> Option<Vec<u8>> {
        connection.write_all(question).await.unwrap();
        let mut answer = vec![0; question.len()];
        let read = connection.read_exact(&mut answer);
        match tokio::time::timeout(Duration::from_millis(200), read).await {
            Ok(Ok(_)) => Some(answer),
            Ok(Err(_)) | Err(_) => None,
        }
    }

    #[tokio::test]
    async fn held_data_passes_later() {
        let (line, _tasks) = line().await;
        let mut connection = TcpStream::connect(line.address).await.unwrap();
        assert_eq!(ask(&mut connection, b"one").await.unwrap(), b"one");
        for flow in ProxyFlow::PARTED {
            line.set(flow);
            assert_eq!(ask(&mut connection, b"two").await, None, "{flow:?}");
            line.set(ProxyFlow::Open);
            let mut answer = [0; 3];
            connection.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"two");
        }
    }

    #[tokio::test]
    async fn a_commit_loses_its_answer_once() {
        let (line, _tasks) = line().await;
        for fate in [CommitFate::Unanswered, CommitFate::Unasked] {
            line.doom_commit(fate);
            let mut connection = TcpStream::connect(line.address).await.unwrap();
            assert_eq!(ask(&mut connection, b"BEGIN\0").await.unwrap(), b"BEGIN\0");
            assert_eq!(ask(&mut connection, COMMIT).await, None, "{fate:?}");
            assert!(line.spare_commits());
            let mut next = TcpStream::connect(line.address).await.unwrap();
            assert_eq!(ask(&mut next, COMMIT).await.unwrap(), COMMIT);
        }
        line.doom_commit(CommitFate::Unasked);
        assert!(!line.spare_commits(), "no commit came");
    }
}
