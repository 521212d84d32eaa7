use std::time::Duration;

use axum::extract::State;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use axum::{Json, Router};
use gatewright_http::Origin;
use gatewright_http::layers::{NoStoreLayer, security_headers};
use http::{HeaderName, HeaderValue};
use serde::Serialize;

use super::guard::{Guarded, guard};
use super::{DevMailbox, Readers, page};
use crate::{Mail, Outgoing};

/// How long an answer waits for mails that were just requested.
const TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Clone)]
struct Mailboxes {
    mailbox: DevMailbox,
    outgoing: Outgoing,
}

/// `GET /dev/mail`, a page, and `GET /dev/mail.json`, only for dev mode: a client that reads them can sign in to every
/// account.
///
/// The JSON is `[{"to","subject","text","links":[…]}]`, newest first. Both wait up to a second for letters that are still in
/// `outgoing`, so that a mail is there after its request was answered. They answer only `readers`, only under loopback hosts
/// and the host of `public_url`, and not the pages of other sites.
pub fn routes(mailbox: DevMailbox, outgoing: Outgoing, public_url: Origin, readers: Readers) -> Router {
    Router::new()
        .route("/dev/mail", get(show))
        .route("/dev/mail.json", get(list))
        .layer(from_fn_with_state(Guarded { public_url, readers }, guard))
        .layer(axum::middleware::map_response(same_origin_only))
        .layer(NoStoreLayer)
        .layer(from_fn(security_headers))
        .with_state(Mailboxes { mailbox, outgoing })
}

async fn show(State(state): State<Mailboxes>) -> Response {
    state.outgoing.settle(TIMEOUT).await;
    page::page(&state.mailbox.mails())
}

async fn list(State(state): State<Mailboxes>) -> Json<Vec<Entry>> {
    state.outgoing.settle(TIMEOUT).await;
    Json(state.mailbox.mails().iter().map(|mail| Entry::of(mail)).collect())
}

/// A mail on the wire. Its text and links are shown on purpose.
#[derive(Serialize)]
struct Entry {
    to: String,
    subject: String,
    text: String,
    links: Vec<String>,
}

impl Entry {
    fn of(mail: &Mail) -> Self {
        Self {
            to: mail.to.as_str().to_owned(),
            subject: mail.subject.clone(),
            text: mail.text.expose().to_owned(),
            links: mail.links.iter().map(|link| link.expose().to_owned()).collect(),
        }
    }
}

/// Prevents other origins, also on other ports, from including an answer in their pages.
async fn same_origin_only(mut response: Response) -> Response {
    const POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
    response.headers_mut().insert(POLICY, HeaderValue::from_static("same-origin"));
    response
}
