//! What requests may use at the same time: threads, and memory for their answers.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Body as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Largest number of requests at once that list runs or plan.
const LIGHT: usize = 2;
/// Largest number of requests at once that read a whole run. A run of 131 MB takes 650 MB while its page is made.
const HEAVY: usize = 1;
/// Total size of the long answers that wait to be read (MiB). A longer answer waits until it is the only one.
const ANSWERS_MIB: u32 = 256;
/// Time that a request may wait for its turn.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Class of a request, by the work that it needs.
#[derive(Debug, Clone, Copy)]
pub enum Weight {
    /// The request lists runs or plans.
    Light,
    /// The request reads a whole run.
    Heavy,
}

/// Limits of what requests use at once: threads for making answers, and memory for answers.
pub struct Work {
    light: Arc<Semaphore>,
    heavy: Arc<Semaphore>,
    answers: Arc<Semaphore>,
}

/// Memory reserved for an answer. It is freed when the last clone is dropped.
#[derive(Clone)]
pub struct Room(#[expect(dead_code, reason = "it is held")] Arc<OwnedSemaphorePermit>);

impl Default for Work {
    fn default() -> Self {
        let of = |most| Arc::new(Semaphore::new(most));
        Self { light: of(LIGHT), heavy: of(HEAVY), answers: of(ANSWERS_MIB as usize) }
    }
}

impl Work {
    /// Makes an answer when it is its turn, in a thread where waiting does not delay other connections. A request whose
    /// client has left loses its turn; one that is being answered runs to its end.
    pub async fn answer(&self, weight: Weight, make: impl FnOnce() -> Response + Send + 'static) -> Response {
        let turns = match weight {
            Weight::Light => &self.light,
            Weight::Heavy => &self.heavy,
        };
        let Some(turn) = waited(turns, 1).await else { return busy() };
        match tokio::task::spawn_blocking(move || (make(), turn)).await {
            // The next request begins when memory is reserved for this answer.
            Ok((answer, _turn)) => self.with_room(answer).await,
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
        }
    }

    async fn with_room(&self, mut answer: Response) -> Response {
        let bytes = answer.body().size_hint().lower();
        let mib = u32::try_from(bytes >> 20).unwrap_or(ANSWERS_MIB).min(ANSWERS_MIB);
        if mib > 0 {
            let Some(room) = waited(&self.answers, mib).await else { return busy() };
            answer.extensions_mut().insert(Room(Arc::new(room)));
        }
        answer
    }
}

async fn waited(turns: &Arc<Semaphore>, count: u32) -> Option<OwnedSemaphorePermit> {
    tokio::time::timeout(LONGEST_WAIT, Arc::clone(turns).acquire_many_owned(count)).await.ok()?.ok()
}

fn busy() -> Response {
    let why = format!(
        "other requests take all of the memory that `netcliff serve` allows itself, and did so for {} s: close other pages of large runs, \
         then load this one again\n",
        LONGEST_WAIT.as_secs()
    );
    (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "10")], why).into_response()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Twenty requests for a large run: one answer is made at a time, and unread answers stay within the permitted
    /// memory.
    #[test]
    fn large_answers_wait_for_room() {
        static MAKING: AtomicUsize = AtomicUsize::new(0);
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let work = Arc::<Work>::default();
            let (sender, mut answers) = tokio::sync::mpsc::unbounded_channel();
            for _ in 0..20 {
                let (work, sender) = (Arc::clone(&work), sender.clone());
                tokio::spawn(async move {
                    let make = || {
                        assert_eq!(MAKING.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
                        let answer = vec![0_u8; 100 << 20].into_response();
                        MADE.fetch_add(1, Ordering::SeqCst);
                        MAKING.fetch_sub(1, Ordering::SeqCst);
                        answer
                    };
                    let _ = sender.send(work.answer(Weight::Heavy, make).await);
                });
            }
            drop(sender);
            let mut taken = Vec::new();
            for _ in 0..2 {
                taken.push(answers.recv().await.expect("there is room for two"));
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
            assert!(answers.try_recv().is_err() && MADE.load(Ordering::SeqCst) == 3, "the third waits");
            let light = work.answer(Weight::Light, || "listed".into_response()).await;
            assert_eq!(light.status(), StatusCode::OK);
            for _ in 2..20 {
                taken.remove(0);
                taken.push(answers.recv().await.expect("its turn"));
            }
            assert!(answers.recv().await.is_none());
        });
    }
}
