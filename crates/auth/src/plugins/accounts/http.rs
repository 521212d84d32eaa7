use std::sync::Arc;

use axum::extract::State;
use axum::routing::{delete, get};
use axum::{Json, Router};
use gatewright_base::{JsonCase, time};
use gatewright_http::{Problem, Segment, Submission};
use serde_json::{Map, Value, json};

use super::flow::Flow;
use crate::fresh::OnlyGiven;
use crate::session::Session;
use crate::users::{LinkedAccount, Unlinked};
use crate::web::{Case, Visitor};

pub(super) fn routes(flow: Arc<Flow>) -> Router {
    Router::new().route("/accounts", get(list)).route("/unlink/{provider}", delete(unlink)).with_state(flow)
}

async fn list(State(flow): State<Arc<Flow>>, Case(case): Case, caller: Session) -> Result<Json<Value>, Problem> {
    let accounts: Vec<_> = flow.list(&caller).await?.into_iter().map(|account| object(account, case)).collect();
    Ok(Json(json!({ "accounts": accounts })))
}

async fn unlink(
    State(flow): State<Arc<Flow>>,
    visitor: Visitor,
    caller: Session,
    Segment(provider): Segment,
    given: Submission<OnlyGiven>,
) -> Result<Json<Value>, Problem> {
    match flow.unlink(&caller, &provider, &given.value.into(), &visitor.client).await? {
        Unlinked::Removed => Ok(Json(json!({ "unlinked": provider }))),
        Unlinked::NotLinked => Err(Problem::not_found("no such provider is linked")),
        Unlinked::WasLast => Err(was_last()),
    }
}

/// 409: nothing to sign in with would remain.
pub(crate) fn was_last() -> Problem {
    let detail = "this is the last way to sign in to the account: set a password or link another provider first";
    Problem::conflict(detail).with_code("last_credential")
}

fn object(account: LinkedAccount, case: JsonCase) -> Map<String, Value> {
    let link = account.link;
    let fields: [(&str, Value); 6] = [
        ("provider", link.provider.into()),
        ("provider_id", link.provider_id.into()),
        ("email", link.email.into()),
        ("name", link.name.into()),
        ("avatar_url", link.avatar_url.into()),
        ("linked_at", time::format(account.linked_at).into()),
    ];
    fields.into_iter().map(|(name, value)| (case.spell(name), value)).collect()
}
