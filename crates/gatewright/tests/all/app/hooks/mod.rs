//! Hooks by HTTP: who is asked when, what becomes of the answers, and what becomes of a hook that does not answer.

mod answers;
mod changed;
mod doors;
mod order;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// The program that is asked.
#[derive(Clone, Default)]
struct Program(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    asked: Vec<(HeaderMap, Bytes)>,
    answers: Vec<(u16, String)>,
    /// What it refuses: questions with this text.
    refuses: Option<&'static str>,
    delay: Duration,
    port: u16,
}

impl Program {
    async fn start() -> Self {
        let program = Self::default();
        let router = Router::new().route("/{path}", post(answer)).with_state(program.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        program.0.lock().port = listener.local_addr().unwrap().port();
        tokio::spawn(async move { axum::serve(listener, router).await });
        program
    }

    /// A declaration of it for an entity.
    fn hook(&self, entity: &str, on: &str, more: &str) -> String {
        let (secret, _) = super::jobs::url::secret();
        format!(
            "[[hook]]\nentity = \"{entity}\"\non = [{on}]\nurl = \"http://127.0.0.1:{}/ask\"\nsecret = \"{secret}\"\n\
             allow_private = true\n{more}\n",
            self.0.lock().port
        )
    }

    /// Answers the next questions with these, and the further ones with no change.
    fn answers(&self, answers: impl IntoIterator<Item = (u16, Value)>) {
        let answers = answers.into_iter().map(|(status, body)| (status, body.to_string()));
        let mut answers: Vec<_> = answers.collect();
        answers.reverse();
        self.0.lock().answers = answers;
    }

    fn refuses(&self, text: Option<&'static str>) {
        self.0.lock().refuses = text;
    }

    fn texts(&self, status: u16, text: &str) {
        self.0.lock().answers = vec![(status, text.to_owned())];
    }

    fn delays(&self, delay: Duration) {
        self.0.lock().delay = delay;
    }

    /// What was asked since the last look.
    fn asked(&self) -> Vec<Value> {
        let asked = std::mem::take(&mut self.0.lock().asked);
        asked.iter().map(|(_, body)| serde_json::from_slice(body).unwrap()).collect()
    }
}

async fn answer(State(program): State<Program>, Path(_): Path<String>, headers: HeaderMap, body: Bytes) -> Response {
    let (delay, answer) = {
        let mut program = program.0.lock();
        let text = String::from_utf8_lossy(&body).into_owned();
        program.asked.push((headers, body));
        let is_refused = program.refuses.is_some_and(|refused| text.contains(refused));
        let refusal = is_refused.then(|| (400, json!({"detail": "no"}).to_string()));
        (program.delay, refusal.or_else(|| program.answers.pop()))
    };
    tokio::time::sleep(delay).await;
    let (status, text) = answer.unwrap_or_else(|| (200, json!({"values": {}}).to_string()));
    let status = StatusCode::from_u16(status).unwrap();
    if status.is_redirection() {
        return (status, [("location", text.trim_matches('"').to_owned())]).into_response();
    }
    (status, [("content-type", "application/json")], text).into_response()
}

const ORDERS: &str = r#"
[[entity]]
name = "orders"
owner_field = "user_id"
[[entity.field]]
name = "item"
type = "string"
required = true
[[entity.field]]
name = "price"
type = "int"
required = true
max = 1000
[[entity.field]]
name = "note"
type = "string"
[[entity.field]]
name = "margin"
type = "int"
hidden = true
[[entity.field]]
name = "state"
type = "string"
write = "@roles has 'clerk'"
"#;

const ALL: &str = r#""before_create", "before_update", "before_delete""#;
