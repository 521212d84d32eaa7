use std::sync::Arc;

use gatewright_auth::{AccountError, Accounts, Auth, AuthInitError};
use gatewright_base::{Ambient, Budget, UserId};
use gatewright_db::{Db, OpenError};
use gatewright_entities::Builder as EntitiesBuilder;
use gatewright_events::outbox::Outbox;

use crate::app::account_events::AccountOutbox;
use crate::app::account_records::EntityRecords;
use crate::app::audit::EntityAudit;
use crate::app::parts;
use crate::{Config, functions};

/// Why accounts cannot be managed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccountsError {
    /// Authentication is disabled.
    #[error("`auth.enabled` is false: there are no accounts")]
    Disabled,
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Authentication cannot be built.
    #[error(transparent)]
    Auth(#[from] AuthInitError),
    /// The outbox cannot be opened.
    #[error(transparent)]
    Outbox(#[from] gatewright_events::outbox::InitError),
}

/// Opens the accounts of a configuration for trusted management, with or without a running server.
///
/// The secrets for serving may be missing, because nothing is signed. Missing tables are created if the configuration
/// allows it.
pub async fn accounts(config: &Config) -> Result<Accounts, AccountsError> {
    Ok(management(config).await?.accounts())
}

/// Deletes an account permanently, as [`Accounts::delete`] does, and handles its records by `auth.on_account_delete`
/// and the relations' `on_delete`. The tables of entities are migrated first.
pub async fn delete_account(config: &Config, id: &UserId) -> Result<(), DeleteAccountError> {
    let mut config = config.clone();
    config.server.dev_mode = true;
    let (db, ambient) = (parts::open(&config).await.map_err(AccountsError::Open)?, Ambient::system());
    let (outbox, events) = Box::pin(told(&mut config, &db, &ambient)).await?;
    let builder = parts::auth(&config, &db, &ambient, events.as_ref()).ok_or(AccountsError::Disabled)?;
    #[cfg(feature = "mail")]
    let builder = match crate::app::mail::forgetting(&config, &db, &ambient).await? {
        Some(mailer) => builder.mailer(mailer),
        None => builder,
    };
    let auth = builder.serving_nobody().build().await.map_err(AccountsError::Auth)?;
    let log = parts::log(&config, &db, &ambient, &Budget::unlimited()).await?;
    let mut entities = parts::entities(&config, &db, &ambient);
    if parts::has_tenants(&config) {
        entities = entities.memberships(Arc::new(parts::memberships(&config, &db, &ambient).await?));
    }
    if config.audit.entities {
        entities = entities.change_hook(EntityAudit::new(ambient.clone()));
    }
    let entities = outbox.iter().cloned().fold(entities, EntitiesBuilder::outbox);
    let entities = log.iter().cloned().fold(entities, EntitiesBuilder::log);
    let entities = entities.answers(parts::answers(&config, &db, &ambient).await?);
    let entities = entities.build().await?;
    EntityRecords::new(&config, &entities, outbox.as_ref(), log).give_to(Some(&auth));
    Ok(auth.accounts().delete(id).await?)
}

/// Why an account was not deleted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeleteAccountError {
    /// The accounts cannot be opened.
    #[error(transparent)]
    Accounts(#[from] AccountsError),
    /// The event log cannot be opened.
    #[error(transparent)]
    Log(#[from] gatewright_events::log::InitError),
    /// The outbox cannot be opened.
    #[error(transparent)]
    Outbox(#[from] gatewright_events::outbox::InitError),
    /// The table of kept answers cannot be opened.
    #[error(transparent)]
    Answers(#[from] gatewright_entities::answers::AnswersInitError),
    /// The mail queue cannot be opened.
    #[cfg(feature = "mail")]
    #[error(transparent)]
    MailQueue(#[from] gatewright_mail::stored::MailQueueInitError),
    /// The memberships cannot be opened.
    #[error(transparent)]
    Memberships(#[from] gatewright_entities::tenancy::MembershipsInitError),
    /// The entities cannot be opened.
    #[error(transparent)]
    Entities(#[from] gatewright_entities::BuildError),
    /// The account cannot be deleted.
    #[error(transparent)]
    Account(#[from] AccountError),
}

/// Opens everything that trusted code manages: accounts, API tokens, service accounts. It serves no requests.
pub async fn management(config: &Config) -> Result<Auth, AccountsError> {
    let mut config = config.clone();
    // Posture decides cookies and demands secrets; neither has a part in this.
    config.server.dev_mode = true;
    let (db, ambient) = (parts::open(&config).await?, Ambient::system());
    let (_, events) = Box::pin(told(&mut config, &db, &ambient)).await?;
    let builder = parts::auth(&config, &db, &ambient, events.as_ref()).ok_or(AccountsError::Disabled)?;
    Ok(builder.serving_nobody().build().await?)
}

/// The outbox, if the configuration or a function wants one, and who stages in it what happens to accounts.
pub(crate) async fn told(
    config: &mut Config,
    db: &Db,
    ambient: &Ambient,
) -> Result<(Option<Outbox>, Option<Arc<AccountOutbox>>), gatewright_events::outbox::InitError> {
    let heard = functions::listen(config);
    config.outbox.enabled |= heard.is_some();
    let heard = heard.unwrap_or_default();
    let outbox = Box::pin(parts::outbox(config, &heard, db, ambient, &Budget::unlimited())).await?;
    let events = AccountOutbox::new(config, outbox.as_ref());
    Ok((outbox, events))
}
