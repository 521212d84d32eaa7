//! For tests: records logs, and simulates callers who disconnect.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::{Arc, Once, PoisonError, RwLock};
use std::task::Poll;

use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt};

thread_local! {
    static THREAD: RefCell<Option<Log>> = const { RefCell::new(None) };
}

static PROCESS: RwLock<Option<Log>> = RwLock::new(None);

/// Everything that is logged at any level during the recording, as text.
///
/// All tests of a program share one subscriber, which is never replaced: `tracing` caches for each log statement
/// whether a subscriber is interested, and a thread without its own subscriber could make it cache that none is.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<RwLock<Vec<u8>>>);

impl Log {
    /// Records what the calling thread logs, until the guard is dropped.
    #[must_use = "recording ends when the guard is dropped"]
    pub fn record(&self) -> Recording {
        subscribe();
        THREAD.set(Some(self.clone()));
        Recording(PhantomData)
    }

    /// Records the logs of every thread without its own recording, until the program ends.
    pub fn record_process(&self) {
        subscribe();
        *PROCESS.write().unwrap_or_else(PoisonError::into_inner) = Some(self.clone());
    }

    /// All of it so far.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.read().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// How often these words are in it so far.
    #[must_use]
    pub fn count(&self, words: &str) -> usize {
        self.text().matches(words).count()
    }

    /// The recording of the calling thread.
    fn listening() -> Option<Self> {
        let process = || PROCESS.read().unwrap_or_else(PoisonError::into_inner).clone();
        THREAD.try_with(|log| log.borrow().clone()).ok().flatten().or_else(process)
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Ends the recording of a thread when it is dropped.
#[derive(Debug)]
pub struct Recording(PhantomData<*const ()>);

impl Drop for Recording {
    fn drop(&mut self) {
        THREAD.set(None);
    }
}

fn subscribe() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let lines = fmt::layer().with_ansi(false).with_writer(|| Log::listening().unwrap_or_default());
        let listening = dynamic_filter_fn(|_, _| Log::listening().is_some());
        tracing_subscriber::registry().with(lines.with_filter(listening)).init();
    });
}

/// Drops a future after it was pending this many times; `None` if it was not ready before.
pub async fn cancel_after<T>(waits: usize, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut waited) = (pin!(future), 0);
    poll_fn(move |context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => {
            waited += 1;
            if waited == waits { Poll::Ready(None) } else { Poll::Pending }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_to_the_log_of_its_thread_whichever_thread_logged_first() {
        fn say(who: &str) {
            tracing::trace!("{who} was here");
        }
        std::thread::scope(|threads| {
            let first = Log::default();
            let _first = first.record();
            threads.spawn(|| say("nobody")).join().unwrap();
            say("the first");
            let second = threads.spawn(|| {
                let log = Log::default();
                let recording = log.record();
                say("the second");
                drop(recording);
                say("a late one");
                log.text()
            });
            let second = second.join().unwrap();
            assert!(second.contains("the second was here") && second.lines().count() == 1, "{second}");
            let first = first.text();
            assert!(first.contains("the first was here") && first.lines().count() == 1, "{first}");
        });
    }
}
