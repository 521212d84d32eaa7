//! Pages on an origin of their own, for a browser to open.

use std::io;

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// A site that answers every request with one page. Dropping it ends it.
pub(crate) struct Pages {
    port: u16,
    serving: JoinHandle<()>,
}

impl Pages {
    pub(crate) async fn serve(page: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let page = page.to_owned();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let page = page.clone();
                tokio::spawn(async move { answer(stream, &page).await });
            }
        });
        Self { port, serving }
    }

    /// The site's origin by an address, or by another name of it, which makes another site of it.
    pub(crate) fn origin(&self, host: &str) -> String {
        format!("http://{host}:{}", self.port)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(stream: TcpStream, page: &str) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).await? > 2 {
        line.clear();
    }
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nConnection: close\r\nContent-Length: ";
    stream.write_all(format!("{head}{}\r\n\r\n{page}", page.len()).as_bytes()).await?;
    stream.shutdown().await
}
