//! Questions that wait at the same time are asked together and answered singly.

use tokio::sync::{mpsc, oneshot};

use crate::WORKERS;

/// A handle to whoever puts the questions together. One group is under way at a time; meanwhile the next one gathers.
pub(crate) struct Group<Q, A> {
    questions: mpsc::Sender<(Q, oneshot::Sender<A>)>,
}

impl<Q, A> Clone for Group<Q, A> {
    fn clone(&self) -> Self {
        Self {
            questions: self.questions.clone(),
        }
    }
}

impl<Q: Send + 'static, A: Send + 'static> Group<Q, A> {
    /// Starts it: `answer` gets the questions of a group over `context`, and gives an answer for each, in their order.
    pub(crate) fn start<C, F, T>(context: C, answer: F) -> Self
    where
        C: Clone + Send + 'static,
        F: Fn(C, Vec<Q>) -> T + Send + 'static,
        T: Future<Output = anyhow::Result<Vec<A>>> + Send,
    {
        let lot = usize::try_from(WORKERS).unwrap_or(usize::MAX);
        let (questions, mut waiting) = mpsc::channel::<(Q, oneshot::Sender<A>)>(lot);
        tokio::spawn(async move {
            let mut group = Vec::with_capacity(lot);
            while waiting.recv_many(&mut group, lot).await > 0 {
                let (questions, replies): (Vec<Q>, Vec<_>) = group.drain(..).unzip();
                // Whoever waits for a group that failed sees that its reply is gone.
                let Ok(answers) = answer(context.clone(), questions).await else {
                    continue;
                };
                for (reply, answer) in replies.into_iter().zip(answers) {
                    drop(reply.send(answer));
                }
            }
        });
        Self { questions }
    }

    /// Asks, and waits for the answer.
    pub(crate) async fn ask(&self, question: Q) -> anyhow::Result<A> {
        let (reply, answer) = oneshot::channel();
        let gone = || anyhow::anyhow!("the group failed");
        self.questions.send((question, reply)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())
    }
}
