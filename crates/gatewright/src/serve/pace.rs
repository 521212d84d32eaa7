use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// The minimum speed of a client that delays an answer, in bytes per second.
pub(super) const MIN_RATE: u64 = 8 * 1024;

/// A connection that breaks if the client reads an answer too slowly.
///
/// An answer stays in memory until the client has read it. While writes have to wait for the client, it must read at least
/// 8 KiB per second over each period. For an event stream, one byte in each period is enough, because a stream sends only
/// its events. Time without data to send does not count.
pub(super) struct Paced<S> {
    stream: S,
    grace: Duration,
    /// The current answer is an event stream.
    is_event_stream: bool,
    /// Set while a write waits for the client.
    waits: Arc<AtomicBool>,
    /// The time since which writes have been waiting without interruption.
    backlog: Option<Backlog>,
}

struct Backlog {
    /// The end of the current period.
    period: Pin<Box<Sleep>>,
    /// Bytes that the client has taken in it.
    taken: u64,
}

impl<S> Paced<S> {
    /// `waits` is set while a write waits for the client.
    pub(super) fn new(stream: S, grace: Duration, waits: Arc<AtomicBool>) -> Self {
        Self { stream, grace, is_event_stream: false, waits, backlog: None }
    }

    /// The same connection, on which an event stream is sent from now on.
    pub(super) fn of_event_stream(self) -> Self {
        Self { is_event_stream: true, ..self }
    }

    /// Records the result of a write, and fails if the client was too slow.
    fn note(&mut self, context: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = written {
            if let (Some(backlog), Ok(bytes)) = (&mut self.backlog, &written) {
                backlog.taken = backlog.taken.saturating_add(*bytes as u64);
            }
            return Poll::Ready(written);
        }
        let grace = self.grace;
        self.waits.store(true, Ordering::Relaxed);
        let backlog = self.backlog.get_or_insert_with(|| Backlog { period: Box::pin(sleep(grace)), taken: 0 });
        while backlog.period.as_mut().poll(context).is_ready() {
            let least = if self.is_event_stream { 1 } else { MIN_RATE * grace.as_secs() };
            if backlog.taken < least.max(1) {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client reads too slowly")));
            }
            backlog.taken = 0;
            backlog.period.as_mut().reset(Instant::now() + grace);
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.note(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called once all there was to send is written.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.backlog = None;
        self.waits.store(false, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    fn paced(is_event_stream: bool) -> (Paced<DuplexStream>, DuplexStream) {
        let (server, client) = duplex(1024);
        let paced = Paced::new(server, TIMEOUT, Arc::default());
        (if is_event_stream { paced.of_event_stream() } else { paced }, client)
    }

    /// Reads `bytes` in each second.
    async fn read_at(mut client: DuplexStream, bytes: usize) {
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        let mut buffer = vec![0; bytes];
        loop {
            tick.tick().await;
            if client.read_exact(&mut buffer).await.is_err() {
                return;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_an_answer_too_slowly_is_cut_and_a_faster_one_is_not() {
        for (rate, is_event_stream, cut_after) in [
            (0, false, Some(30)),
            (4096, false, Some(30)),
            (16_384, false, None),
            (0, true, Some(30)),
            (16, true, None),
        ] {
            let (mut server, client) = paced(is_event_stream);
            let reader = if rate == 0 {
                // Held open and never read.
                tokio::spawn(async move {
                    let _client = client;
                    std::future::pending::<()>().await;
                })
            } else {
                tokio::spawn(read_at(client, rate))
            };
            let begun = Instant::now();
            let answer = vec![0; if is_event_stream { 4096 } else { 1_000_000 }];
            let written = async {
                server.write_all(&answer).await?;
                server.flush().await
            };
            match (written.await, cut_after) {
                (Ok(()), None) => {}
                (Err(error), Some(seconds)) => {
                    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
                    assert_eq!(begun.elapsed().as_secs(), seconds, "{rate}");
                }
                (written, _) => panic!("{rate} {is_event_stream}: {written:?}"),
            }
            reader.abort();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn time_without_anything_to_send_does_not_count() {
        let (mut server, mut client) = paced(false);
        for _ in 0..3 {
            server.write_all(&[0; 1024]).await.unwrap();
            server.flush().await.unwrap();
            tokio::time::sleep(TIMEOUT * 2).await;
            let mut taken = [0; 1024];
            client.read_exact(&mut taken).await.unwrap();
        }
    }
}
