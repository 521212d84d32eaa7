use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::io::{AsyncBufRead as _, AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::net::TcpStream;

/// A connection that returns one line at a time, independent of how much has arrived.
///
/// With STARTTLS, an attacker in the middle can send more than the server's "go ahead" as plain text. If it were read
/// with that line, it would later count as the server's text under TLS. Here it stays unread and becomes part of the
/// TLS handshake, which then fails.
#[derive(Debug)]
pub(super) struct LineByLine(BufReader<TcpStream>);

impl LineByLine {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self(BufReader::new(stream))
    }
}

impl AsyncRead for LineByLine {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let arrived = ready!(Pin::new(&mut self.0).poll_fill_buf(cx))?;
        let line = arrived.iter().position(|byte| *byte == b'\n').map_or(arrived.len(), |index| index + 1);
        let count = line.min(out.remaining());
        out.put_slice(&arrived[..count]);
        Pin::new(&mut self.0).consume(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for LineByLine {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl AsyncTokioStream for LineByLine {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().peer_addr()
    }
}
