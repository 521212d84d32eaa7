use std::sync::{Arc, mpsc};

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, Row, params};
use tokio::sync::oneshot;

use super::streams::Streams;
use super::{NewPost, One, Page, Paging, Post};

type Write = (Post, oneshot::Sender<Post>);
type Read = Box<dyn FnOnce(&Connection) + Send>;

#[derive(Clone)]
struct App {
    writes: mpsc::Sender<Write>,
    reads: Arc<(Mutex<Vec<Read>>, Condvar)>,
    streams: Streams,
}

/// Serves `file`. With `single`, every insert has its own commit. Otherwise all waiting inserts share a commit.
pub(crate) async fn serve(file: &str, single: bool) -> anyhow::Result<()> {
    let connection = open(file)?;
    connection.execute_batch(
        "CREATE TABLE posts (id TEXT PRIMARY KEY, title TEXT NOT NULL, body TEXT, status TEXT NOT NULL, views INTEGER,
         created_at TEXT NOT NULL, updated_at TEXT NOT NULL)",
    )?;
    let (writes, queue) = mpsc::channel();
    std::thread::spawn(move || write(&connection, &queue, if single { 1 } else { 256 }));
    let reads = Arc::new((Mutex::new(Vec::<Read>::new()), Condvar::new()));
    for _ in 0..2 {
        let (connection, reads) = (open(file)?, reads.clone());
        std::thread::spawn(move || {
            loop {
                let mut waiting = reads.0.lock();
                while waiting.is_empty() {
                    reads.1.wait(&mut waiting);
                }
                let half = waiting.len() / 2;
                let batch = waiting.split_off(half);
                drop(waiting);
                let _begun = connection.execute_batch("BEGIN");
                for read in batch {
                    read(&connection);
                }
                let _ended = connection.execute_batch("COMMIT");
            }
        });
    }
    let streams = Streams::new();
    let app = Router::new()
        .route("/posts", get(list).post(create))
        .route("/posts/{id}", get(one))
        .route("/posts/_events", get(async |State(app): State<App>| app.streams.open()));
    super::listen(app.with_state(App { writes, reads, streams })).await
}

fn open(file: &str) -> anyhow::Result<Connection> {
    let connection = Connection::open(file)?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000;
         PRAGMA wal_autocheckpoint = 10000; PRAGMA cache_size = -16000;",
    )?;
    Ok(connection)
}

fn write(connection: &Connection, queue: &mpsc::Receiver<Write>, group: usize) {
    while let Ok(first) = queue.recv() {
        let batch: Vec<Write> = std::iter::once(first).chain(queue.try_iter()).take(group).collect();
        let stored = || {
            connection.execute_batch("BEGIN IMMEDIATE")?;
            for (post, _) in &batch {
                connection.prepare_cached("INSERT INTO posts VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?.execute(
                    params![post.id, post.title, post.body, post.status, post.views, post.created_at, post.updated_at],
                )?;
            }
            connection.execute_batch("COMMIT")
        };
        stored().expect("the benchmark's database takes writes");
        for (post, answer) in batch {
            let _gone = answer.send(post);
        }
    }
}

impl App {
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StatusCode> {
        let (answer, result) = oneshot::channel();
        self.reads.0.lock().push(Box::new(move |connection| {
            let _gone = answer.send(work(connection));
        }));
        self.reads.1.notify_one();
        result.await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?.map_err(|_| StatusCode::NOT_FOUND)
    }
}

async fn create(State(app): State<App>, Json(new): Json<NewPost>) -> Result<(StatusCode, Json<One>), StatusCode> {
    let (answer, stored) = oneshot::channel();
    app.writes.send((new.stamped(), answer)).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    let data = stored.await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    app.streams.announce(&data);
    Ok((StatusCode::CREATED, Json(One { data })))
}

async fn one(State(app): State<App>, Path(id): Path<String>) -> Result<Json<One>, StatusCode> {
    let data = app
        .read(move |connection| connection.prepare_cached("SELECT * FROM posts WHERE id = ?1")?.query_row([id], post))
        .await?;
    Ok(Json(One { data }))
}

async fn list(State(app): State<App>, Query(paging): Query<Paging>) -> Result<Json<Page>, StatusCode> {
    let limit = paging.limit;
    let (data, total) = app
        .read(move |connection| {
            let mut statement = connection.prepare_cached("SELECT * FROM posts ORDER BY id LIMIT ?1")?;
            let rows = statement.query_map([limit], post)?.collect::<rusqlite::Result<Vec<_>>>()?;
            let total = connection.prepare_cached("SELECT count(*) FROM posts")?.query_row([], |row| row.get(0))?;
            Ok((rows, total))
        })
        .await?;
    Ok(Json(Page { data, total, page: 1, limit, has_more: total > limit }))
}

fn post(row: &Row<'_>) -> rusqlite::Result<Post> {
    Ok(Post {
        id: row.get(0)?,
        title: row.get(1)?,
        body: row.get(2)?,
        status: row.get(3)?,
        views: row.get(4)?,
        created_at: row.get(5)?,
        updated_at: row.get(6)?,
    })
}
