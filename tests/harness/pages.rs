//! Pages on their own origin, for a browser to open.

use std::{fs, io, path::PathBuf, sync::Arc};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// A site. Dropping it ends it.
pub(crate) struct Pages {
    port: u16,
    serving: JoinHandle<()>,
}

/// The content of a site.
#[derive(Default)]
pub(crate) struct Site {
    /// Texts by path. The empty path answers every path that nothing else answers.
    texts: Vec<(String, String)>,
    /// Folders by the path prefix, with a slash at both ends.
    folders: Vec<(String, PathBuf)>,
}

impl Site {
    pub(crate) fn text(mut self, path: &str, text: &str) -> Self {
        self.texts.push((path.to_owned(), text.to_owned()));
        self
    }

    pub(crate) fn folder(mut self, path: &str, folder: impl Into<PathBuf>) -> Self {
        self.folders.push((path.to_owned(), folder.into()));
        self
    }

    pub(crate) async fn serve(self) -> Pages {
        Pages::bind().await.answering(self)
    }

    fn answer(&self, path: &str) -> Option<(&'static str, Vec<u8>)> {
        let text = |wanted: &str| self.texts.iter().find(|(path, _)| path == wanted).map(|(_, text)| text);
        if let Some(text) = text(path) {
            return Some((content_type(path), text.clone().into_bytes()));
        }
        let file = self.folders.iter().find_map(|(under, folder)| {
            let rest = path.strip_prefix(under.as_str())?;
            let name = if rest.is_empty() { "index.html" } else { rest };
            fs::read(folder.join(name)).ok().map(|bytes| (content_type(name), bytes))
        });
        file.or_else(|| Some((content_type("x.html"), text("")?.clone().into_bytes())))
    }
}

/// The port of a site before its content is known.
pub(crate) struct Bound {
    listener: TcpListener,
    port: u16,
}

impl Bound {
    pub(crate) fn origin(&self, host: &str) -> String {
        format!("http://{host}:{}", self.port)
    }

    pub(crate) fn answering(self, site: Site) -> Pages {
        let (site, listener) = (Arc::new(site), self.listener);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let site = site.clone();
                tokio::spawn(async move { answer(stream, &site).await });
            }
        });
        Pages { port: self.port, serving }
    }
}

impl Pages {
    /// A site that answers every request with one page.
    pub(crate) async fn serve(page: &str) -> Self {
        Site::default().text("", page).serve().await
    }

    pub(crate) async fn bind() -> Bound {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        Bound { listener, port }
    }

    /// The site's origin by an address, or by another host name. Another host name is another site.
    pub(crate) fn origin(&self, host: &str) -> String {
        format!("http://{host}:{}", self.port)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        _ => "text/html; charset=utf-8",
    }
}

async fn answer(stream: TcpStream, site: &Site) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut first, mut line) = (String::new(), String::new());
    stream.read_line(&mut first).await?;
    while stream.read_line(&mut line).await? > 2 {
        line.clear();
    }
    let path = first.split(' ').nth(1).unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    let (status, (kind, page)) = match site.answer(path) {
        Some(found) => ("200 OK", found),
        None => ("404 Not Found", (content_type(""), Vec::new())),
    };
    let length = page.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), &page].concat()).await?;
    stream.shutdown().await
}
