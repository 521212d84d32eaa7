use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use tokio_postgres::{Client, NoTls, Row, Statement};

use super::{NewPost, One, Page, Paging, Post};

struct Lane {
    client: Client,
    insert: Statement,
    one: Statement,
    page: Statement,
    count: Statement,
}

#[derive(Clone)]
struct App(Arc<(Vec<Lane>, AtomicUsize)>);

const COLUMNS: &str = "id, title, body, status, views,
    to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'),
    to_char(updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')";

/// Serves a table in the database at `url` over eight shared connections.
pub(crate) async fn serve(url: &str) -> anyhow::Result<()> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    client
        .batch_execute(
            "CREATE SCHEMA floor; CREATE TABLE floor.posts (id text PRIMARY KEY, title text NOT NULL, body text,
             status text NOT NULL, views bigint, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL)",
        )
        .await?;
    let mut lanes = Vec::new();
    for _ in 0..8 {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        lanes.push(Lane {
            insert: client
                .prepare(
                    "INSERT INTO floor.posts VALUES ($1, $2, $3, $4, $5, $6::text::timestamptz, $7::text::timestamptz)",
                )
                .await?,
            one: client.prepare(&format!("SELECT {COLUMNS} FROM floor.posts WHERE id = $1")).await?,
            page: client.prepare(&format!("SELECT {COLUMNS} FROM floor.posts ORDER BY id LIMIT $1")).await?,
            count: client.prepare("SELECT count(*) FROM floor.posts").await?,
            client,
        });
    }
    let app = Router::new().route("/posts", get(list).post(create)).route("/posts/{id}", get(one));
    super::listen(app.with_state(App(Arc::new((lanes, AtomicUsize::new(0)))))).await
}

impl App {
    fn lane(&self) -> &Lane {
        &self.0.0[self.0.1.fetch_add(1, Ordering::Relaxed) % self.0.0.len()]
    }
}

async fn create(State(app): State<App>, Json(new): Json<NewPost>) -> Result<(StatusCode, Json<One>), StatusCode> {
    let (lane, data) = (app.lane(), new.stamped());
    lane.client
        .execute(
            &lane.insert,
            &[&data.id, &data.title, &data.body, &data.status, &data.views, &data.created_at, &data.updated_at],
        )
        .await
        .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok((StatusCode::CREATED, Json(One { data })))
}

async fn one(State(app): State<App>, Path(id): Path<String>) -> Result<Json<One>, StatusCode> {
    let lane = app.lane();
    let row = lane.client.query_one(&lane.one, &[&id]).await.map_err(|_| StatusCode::NOT_FOUND)?;
    Ok(Json(One { data: post(&row) }))
}

async fn list(State(app): State<App>, Query(paging): Query<Paging>) -> Result<Json<Page>, StatusCode> {
    let (lane, limit) = (app.lane(), paging.limit);
    let failed = |_| StatusCode::INTERNAL_SERVER_ERROR;
    let rows = lane.client.query(&lane.page, &[&limit]).await.map_err(failed)?;
    let total: i64 = lane.client.query_one(&lane.count, &[]).await.map_err(failed)?.get(0);
    Ok(Json(Page { data: rows.iter().map(post).collect(), total, page: 1, limit, has_more: total > limit }))
}

fn post(row: &Row) -> Post {
    Post {
        id: row.get(0),
        title: row.get(1),
        body: row.get(2),
        status: row.get(3),
        views: row.get(4),
        created_at: row.get(5),
        updated_at: row.get(6),
    }
}
