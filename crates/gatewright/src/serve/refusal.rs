use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::task::TaskTracker;

use super::transport::Transport;

/// How long a refused connection may take to send its request and read the answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How many connections are refused with an answer at the same time; others are closed without one. Each uses a file
/// descriptor, from those that `server.max_connections` leaves for the process's own use.
const AT_A_TIME: usize = 64;
const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
    content-type: application/problem+json\r\nx-content-type-options: nosniff\r\ncontent-length: 118\r\n\r\n\
    {\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,\"detail\":\"too many connections\",\"code\":\"unavailable\"}";

/// Answers 503 on connections that are over a limit.
#[derive(Default)]
pub(super) struct Refusals(TaskTracker);

impl Refusals {
    pub(super) fn refuse(&self, stream: Transport) {
        if self.0.len() < AT_A_TIME {
            self.0.spawn(answer(stream));
        }
    }
}

/// Answers before a request is read to its end, and then reads the rest: if unread bytes are left, the answer may be
/// lost.
async fn answer(mut stream: Transport) {
    let exchange = async {
        stream.write_all(ANSWER).await?;
        stream.shutdown().await?;
        let mut unread = [0; 1024];
        while stream.read(&mut unread).await? > 0 {}
        io::Result::Ok(())
    };
    // If the client has disconnected or never ends its request, the answer is not needed.
    let _answered_or_not = tokio::time::timeout(TIMEOUT, exchange).await;
}
