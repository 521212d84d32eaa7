//! Events of accounts, tenants and members in the outbox.

use std::sync::Arc;

use async_trait::async_trait;
use gatewright_auth::{Account, AccountEventKind, AccountEventSink, AuthBuilder};
use gatewright_base::{JsonCase, Roles, Subject, TenantId, time};
use gatewright_db::{Error, Share, Tx};
use gatewright_entities::Profile;
use gatewright_events::outbox::Outbox;
use gatewright_tenancy::{MemberEvent, MemberEventSink, SqlMemberships};
use serde_json::{Map, Value, json};

use super::profiles;
use crate::Config;

/// Stages events of accounts.
pub(crate) struct AccountOutbox {
    outbox: Outbox,
    case: JsonCase,
    profile: Option<Arc<Profile>>,
}

/// The types of all events of accounts, tenants and members.
pub(crate) fn types() -> impl Iterator<Item = &'static str> {
    AccountEventKind::ALL.into_iter().map(AccountEventKind::as_str).chain(MemberEvent::TYPES)
}

impl AccountOutbox {
    /// `None` without an outbox.
    pub(crate) fn new(config: &Config, outbox: Option<&Outbox>) -> Option<Arc<Self>> {
        let outbox = outbox?.clone();
        Some(Arc::new(Self { outbox, case: config.server.json_case, profile: profiles::declared(config) }))
    }

    fn user(&self, account: &Account, with_profile: bool) -> Value {
        let spell = |name: &str| self.case.spell(name);
        let mut user = Map::from_iter([
            ("id".to_owned(), json!(account.id.as_str())),
            ("email".to_owned(), json!(account.email)),
            (spell("email_verified"), json!(account.email_verified)),
            ("roles".to_owned(), roles(&account.roles)),
            ("disabled".to_owned(), json!(account.disabled)),
            (spell("created_at"), json!(time::format(account.created_at))),
        ]);
        if let Some(profile) = self.profile.as_ref().filter(|_| with_profile) {
            user.insert("profile".to_owned(), profile.shown(account.profile.as_deref()).into());
        }
        user.into()
    }
}

fn roles(roles: &Roles) -> Value {
    roles.iter().collect::<Vec<_>>().into()
}

#[async_trait]
impl AccountEventSink for AccountOutbox {
    async fn tell(&self, tx: &Tx, kind: AccountEventKind, account: &Account) -> Result<(), Error> {
        let share = Share::of_user(&account.id);
        let user = match kind {
            // What is gone is named, and no more.
            AccountEventKind::Deleted => json!({ "id": account.id.as_str() }),
            // A profile may be large: who has filled their part of the outbox adds none.
            _ => self.user(account, self.outbox.admit(share).is_ok()),
        };
        let payload = Map::from_iter([("user".to_owned(), user)]);
        let subject = format!("user/{}", account.id);
        self.outbox.tell(tx, share, (kind.as_str(), &subject), &payload).await.map(|_| ())
    }
}

#[async_trait]
impl MemberEventSink for AccountOutbox {
    async fn tell(&self, tx: &Tx, tenant: &TenantId, event: &MemberEvent) -> Result<(), Error> {
        let mut shown = Map::from_iter([("id".to_owned(), json!(tenant.as_str()))]);
        let mut payload = Map::new();
        match event {
            MemberEvent::TenantCreated { name } => {
                shown.insert("name".to_owned(), json!(name));
            }
            MemberEvent::Added(member, held)
            | MemberEvent::Updated(member, held)
            | MemberEvent::Removed(member, held) => {
                let kind = match member {
                    Subject::User(_) => "user",
                    Subject::Service(_) => "service",
                };
                payload
                    .insert("member".to_owned(), json!({ "kind": kind, "id": member.as_str(), "roles": roles(held) }));
            }
            _ => return Ok(()),
        }
        payload.insert("tenant".to_owned(), shown.into());
        let subject = format!("tenant/{tenant}");
        self.outbox.tell(tx, Share::default(), (event.type_name(), &subject), &payload).await.map(|_| ())
    }
}

/// Accounts that tell what happens to them.
pub(crate) fn told(builder: AuthBuilder, events: Option<&Arc<AccountOutbox>>) -> AuthBuilder {
    match events {
        Some(events) => builder.account_events(events.clone()),
        None => builder,
    }
}

/// Members that tell what happens to them.
pub(crate) fn told_of_members(members: SqlMemberships, events: Option<&Arc<AccountOutbox>>) -> SqlMemberships {
    match events {
        Some(events) => members.telling(events.clone()),
        None => members,
    }
}
