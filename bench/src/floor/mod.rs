//! A hand-written server for one table: almost no validation, no access rules, no event log. It shows how much of the
//! machine's capacity is left for those.

pub(crate) mod postgres;
pub(crate) mod sqlite;
mod streams;

use axum::Router;
use serde::{Deserialize, Serialize};

/// The record as stored and answered.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Post {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) body: Option<String>,
    pub(crate) status: String,
    pub(crate) views: Option<i64>,
    #[serde(rename = "createdAt")]
    pub(crate) created_at: String,
    #[serde(rename = "updatedAt")]
    pub(crate) updated_at: String,
}

/// The record as clients send it.
#[derive(Debug, Deserialize)]
pub(crate) struct NewPost {
    title: String,
    body: Option<String>,
    status: String,
    views: Option<i64>,
}

impl NewPost {
    #[expect(clippy::disallowed_methods, reason = "a program written by hand reads the clock")]
    fn stamped(self) -> Post {
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        let id = uuid::Uuid::now_v7().to_string();
        let Self { title, body, status, views } = self;
        Post { id, title, body, status, views, created_at: now.clone(), updated_at: now }
    }
}

/// The envelope of one record.
#[derive(Debug, Serialize)]
pub(crate) struct One {
    pub(crate) data: Post,
}

/// The envelope of a page.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "these are the words of the wire")]
pub(crate) struct Page {
    pub(crate) data: Vec<Post>,
    pub(crate) total: i64,
    pub(crate) page: i64,
    pub(crate) limit: i64,
    pub(crate) has_more: bool,
}

/// The requested page size.
#[derive(Debug, Deserialize)]
pub(crate) struct Paging {
    pub(crate) limit: i64,
}

async fn listen(router: Router) -> anyhow::Result<()> {
    use axum::serve::ListenerExt;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    let listener = listener.tap_io(|stream| {
        let _slower = stream.set_nodelay(true);
    });
    axum::serve(listener, router).await?;
    Ok(())
}
