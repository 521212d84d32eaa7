//! Who uploads, and whether they may.

use std::sync::Arc;

use gatewright_base::{Identity, Subject};
use gatewright_db::Share;
use gatewright_entities::tenancy::Named;
use gatewright_entities::{Action, Call, Surface};
use gatewright_http::{ClientAddr, Counted, Problem, TrustedProxies};

use super::{State, has_files};
use crate::ledger::{Account, Owner};

/// A request without its body.
pub(super) type Head = http::Request<()>;

/// Takes a request apart.
pub(super) fn split(request: axum::extract::Request) -> (Head, axum::body::Body) {
    let (parts, body) = request.into_parts();
    (Head::from_parts(parts, ()), body)
}

impl State {
    /// The call of a request.
    pub(super) fn call(&self, request: &Head) -> Call {
        let identity = request.extensions().get::<Identity>().cloned().unwrap_or_default();
        let call = self.entities.call(identity, request.headers());
        call.from_address(client(request).ip()).through(Surface::Rest)
    }

    /// The account of a caller who uploads a file to attach it later: they are signed in, and may write records of some entity
    /// with files. Returns the most bytes of such a file too.
    pub(super) async fn stager(&self, call: &Call) -> Result<(Account, u64), Problem> {
        let account = account(call).ok_or_else(|| Problem::unauthorized("authentication is required"))?;
        let (mut refusal, mut most) = (None, None);
        for table in self.entities.tables().filter(|table| table.plan().crud() && has_files(table.plan())) {
            let may = match table.reach(call, Action::Create).await {
                Err(_) => table.reach(call, Action::Update).await.map(|_| ()),
                Ok(_) => Ok(()),
            };
            match may {
                Ok(()) => {
                    let files = table.plan().fields().filter_map(|field| field.files());
                    most = most.max(files.map(|rules| rules.max_bytes).max());
                }
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        match (most, refusal) {
            (Some(most), _) => Ok((account, most)),
            (None, Some(refusal)) => Err(refusal.into()),
            (None, None) => Err(Problem::not_found("no entity has files")),
        }
    }
}

/// The account of a signed-in caller.
fn account(call: &Call) -> Option<Account> {
    let subject = &call.identity.principal()?.subject;
    let uploader = name(subject);
    Some(Account { owner: Owner::Account(uploader.clone()), uploader, share: Share::of(subject) })
}

/// The caller of a request that brings files along: they count as those of the account or, without one, of the network, and are
/// known by a name that is this request's alone.
pub(super) fn request_account(call: &Call, client: ClientAddr, uploads: &Arc<str>) -> Account {
    let network = || Counted::Bytes.share_key(client).unwrap_or_else(|| "network unknown".to_owned());
    let uploader = uploads.to_string();
    match account(call) {
        Some(account) => Account { uploader, ..account },
        None => {
            let network = format!("network:{}", network());
            Account { share: Share::of(&network), owner: Owner::Network(network), uploader }
        }
    }
}

/// The name of an account as an uploader: that of [`Call::uploaders`].
fn name(subject: &Subject) -> String {
    match subject {
        Subject::User(user) => format!("user:{}", user.as_str()),
        Subject::Service(service) => format!("service:{}", service.as_str()),
    }
}

pub(super) fn client(request: &Head) -> ClientAddr {
    let none = TrustedProxies::default();
    ClientAddr::of_request(request, request.extensions().get().unwrap_or(&none))
}

/// The tenant that an address names, for where no header can be sent.
pub(super) fn tenant(text: &str) -> Named {
    gatewright_base::TenantId::parse(text).map_or(Named::Unreadable, Named::Tenant)
}
