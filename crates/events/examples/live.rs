//! A plain axum program whose writes are a stream: what is posted to `/notes` reaches everybody who listens at
//! `/notes/_events`.
//!
//! ```console
//! $ cargo run -p gatewright-events --example live
//! $ curl -N http://127.0.0.1:8080/notes/_events
//! $ curl -d 'buy milk' http://127.0.0.1:8080/notes
//! ```

use std::error::Error;

use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, Response, StatusCode};
use axum::routing::{get, post};
use gatewright_events::base::{Ambient, Identity};
use gatewright_events::http::Problem;
use gatewright_events::sse::{Params, Subscribe};
use gatewright_events::{Bus, EntityEvent, EventKind, StreamOptions, Streams};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let bus = Bus::new(&Ambient::system());
    let streams = Streams::start(&bus, StreamOptions::default());

    let app = Router::new()
        .route("/notes", post(write).with_state(bus))
        .route("/notes/_events", get(listen).with_state(streams));

    let listener = TcpListener::bind("127.0.0.1:8080").await?;
    println!("try: curl -N http://{}/notes/_events", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

/// A program with a database publishes after the commit.
async fn write(State(bus): State<Bus>, text: String) -> StatusCode {
    let record = serde_json::json!({ "text": text }).to_string();
    let _receipt = bus.publish(EntityEvent::new(EventKind::Created, "notes", "notes", record));
    StatusCode::CREATED
}

/// Everybody may see every note here. The filter is where a program says otherwise.
async fn listen(
    State(streams): State<Streams>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let params = Params::read(query.as_deref(), &headers);
    let everybody = |_: &EntityEvent| true;
    Ok(streams.respond(Subscribe::new("notes", Identity::Anonymous, params, everybody))?)
}
