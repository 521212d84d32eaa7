//! Files of records, over HTTP and on both engines.

mod attacks;
mod backups;
mod downloads;
mod forms;
mod images;
mod lives;
mod quotas;
mod stores;
mod surfaces;
mod thumbnails;
mod tus;
mod uploads;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use gatewright_testing::{Actor, Answer, TestApp};
use http::Method;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};
use tempfile::TempDir;

/// An image of one pixel.
const PNG: &[u8] =
    b"\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x01\x00\x00\x00\x01\x08\
    \x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\x0b\x49\x44\x41\x54\x78\x9c\x63\x60\x00\x02\x00\x00\x05\
    \x00\x01\x7a\x5e\xab\x3f\x00\x00\x00\x00\x49\x45\x4e\x44\xae\x42\x60\x82";

const ENTITIES: &str = r#"
[[entity]]
name = "tickets"
owner_field = "user_id"
soft_delete = true
[[entity.field]]
name = "title"
type = "string"
[[entity.field]]
name = "attachments"
type = "file"
many = true
max_items = 3
max_bytes = 1000
[[entity.field]]
name = "cover"
type = "file"
accept = ["image/*"]

[[entity]]
name = "drops"
public = true
[[entity.field]]
name = "file"
type = "file"
public = true
max_bytes = 500
[[entity.field]]
name = "labels"
type = "list"
of = "string"
[[entity.field]]
name = "count"
type = "int"
"#;

/// An application with files in a folder of its own.
struct WithFiles {
    app: TestApp,
    folder: Arc<TempDir>,
}

impl WithFiles {
    /// One on each engine. `storage` are further keys of the section.
    async fn on_every_engine(storage: &str, toml: &str) -> Vec<Self> {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let path = folder.path().display();
        let toml = format!("[storage]\npath = \"{path}\"\nreserve_bytes = 0\n{storage}\n{toml}");
        let apps = TestApp::on_every_engine(&toml).await;
        apps.into_iter().map(|app| Self { app, folder: folder.clone() }).collect()
    }

    /// Whether the bytes of a file are in the store.
    fn has_bytes(&self, id: &str) -> bool {
        self.folder.path().join(&id[id.len() - 2..]).join(id).exists()
    }

    /// Waits until the bytes of a file are deleted.
    async fn loses(&self, id: &str) {
        let begin = Instant::now();
        while self.has_bytes(id) {
            assert!(begin.elapsed() < Duration::from_secs(30), "{}: the bytes stay", self.app.engine());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The files whose bytes are in the store.
    fn count(&self) -> usize {
        let groups = std::fs::read_dir(self.folder.path()).unwrap().map(|group| group.unwrap().path());
        let groups = groups.filter(|group| group.file_name().unwrap().len() == 2);
        groups.map(|group| std::fs::read_dir(group).unwrap().count()).sum()
    }
}

/// Uploads a file by itself.
async fn upload(actor: &Actor, name: &str, bytes: &[u8]) -> Answer {
    let request = actor.request(Method::POST, &format!("/_files?name={name}"));
    let request = request.header(CONTENT_TYPE, "application/octet-stream").body(Body::from(bytes.to_vec()));
    actor.send(request.unwrap()).await
}

/// The id of a file that was uploaded by itself.
async fn uploaded(actor: &Actor, name: &str, bytes: &[u8]) -> String {
    upload(actor, name, bytes).await.is(201).at("/id").as_str().unwrap().to_owned()
}

/// One part of a form: its name, the name of its file, its bytes.
type Part<'a> = (&'a str, Option<&'a str>, &'a [u8]);

/// Sends a form.
async fn form(actor: &Actor, method: Method, path: &str, parts: &[Part<'_>]) -> Answer {
    let mut body = Vec::new();
    for (name, file, bytes) in parts {
        let file = file.map(|file| format!("; filename=\"{file}\"")).unwrap_or_default();
        let head = format!("--XX\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--XX--\r\n");
    let request = actor.request(method, path).header(CONTENT_TYPE, "multipart/form-data; boundary=XX");
    actor.send(request.body(Body::from(body)).unwrap()).await
}

/// The ids of the files in a field.
fn ids(files: &Value) -> Vec<&str> {
    files.as_array().unwrap().iter().map(|file| file["id"].as_str().unwrap()).collect()
}

/// A file in a body.
fn named(id: &str) -> Value {
    json!({ "id": id })
}

/// The path of a file's download.
fn url(file: &Value) -> String {
    file["url"].as_str().unwrap().to_owned()
}
