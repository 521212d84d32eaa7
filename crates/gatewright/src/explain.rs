//! Explains to operators why a caller may or may not do something.

use std::sync::Arc;

use gatewright_auth::service_accounts::ServiceAccountError;
use gatewright_auth::users::UserStoreError;
use gatewright_auth::{AccountError, Auth};
use gatewright_base::{Ambient, Credential, Identity, Principal, Subject, TenantId};
use gatewright_db::OpenError;
use gatewright_entities::operations::{Error as OperationError, Explanation};
use gatewright_entities::tenancy::MembershipsInitError;
use gatewright_entities::{Action, BuildError, Call, Entities};
use jiff::Timestamp;

use crate::accounts::AccountsError;
use crate::app::parts;
use crate::{Config, management};

/// The caller whose permissions are explained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExplainAs<'a> {
    /// The account with this address, signed in with all factors.
    User(&'a str),
    /// The service account with this name, with a token that has all scopes.
    Service(&'a str),
    /// A caller without credentials.
    Anonymous,
}

/// The request to explain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question<'a> {
    /// The caller.
    pub caller: ExplainAs<'a>,
    /// The operation.
    pub operation: Action,
    /// The entity, by its table or its name.
    pub table: &'a str,
    /// The record. Without one, only access to the entity is explained.
    pub id: Option<&'a str>,
    /// The tenant that the request names.
    pub tenant: Option<&'a str>,
}

/// Why nothing was explained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExplainError {
    /// No entity has this name.
    #[error("there is no entity {0:?}")]
    NoEntity(String),
    /// The account does not exist.
    #[error("there is no account {0}")]
    NoAccount(String),
    /// The service account does not exist.
    #[error("there is no service account {0}")]
    NoServiceAccount(String),
    /// The service account is disabled: its tokens are refused.
    #[error("the service account {0} is disabled; its tokens are refused")]
    DisabledServiceAccount(String),
    /// Authentication is off, so every caller is anonymous.
    #[error("there are no accounts here: `auth.enabled` is false, or `auth.plugins` is without \"tokens\"")]
    NoAccounts,
    /// The tenant's name is invalid.
    #[error("a tenant's name is 1 to 200 visible ASCII characters without spaces: it travels in a header")]
    Tenant,
    /// The accounts cannot be read.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// The service accounts cannot be read.
    #[error(transparent)]
    ServiceAccount(#[from] ServiceAccountError),
    /// The records cannot be read.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The accounts cannot be opened.
    #[error(transparent)]
    Accounts(#[from] AccountsError),
    /// The memberships cannot be opened.
    #[error(transparent)]
    Memberships(#[from] MembershipsInitError),
    /// The entities cannot be opened.
    #[error(transparent)]
    Entities(#[from] BuildError),
}

/// Explains a request in a running program. `auth` is its authentication, if it has any.
pub async fn explain(
    entities: &Entities,
    auth: Option<&Auth>,
    question: Question<'_>,
) -> Result<Explanation, ExplainError> {
    let Question { caller, operation, table, id, tenant } = question;
    let table = entities.table(table).map_err(|unknown| ExplainError::NoEntity(unknown.name))?;
    let call = Call::from(identity(auth, caller).await?);
    let call = match tenant {
        None => call,
        Some(tenant) => call.in_tenant(TenantId::parse(tenant).map_err(|_| ExplainError::Tenant)?),
    };
    Ok(table.explain(&call, operation, id).await?)
}

/// Explains a request from a configuration, with or without a running server. Writes nothing and creates no table.
pub async fn explain_offline(config: &Config, question: Question<'_>) -> Result<Explanation, ExplainError> {
    let mut config = config.clone();
    config.database.create_tables = false;
    let auth = match management(&config).await {
        Ok(auth) => Some(auth),
        Err(AccountsError::Disabled) => None,
        Err(error) => return Err(error.into()),
    };
    let (db, ambient) = (parts::open(&config).await?, Ambient::system());
    let mut builder = parts::entities(&config, &db, &ambient);
    if parts::has_tenants(&config) {
        builder = builder.memberships(Arc::new(parts::memberships(&config, &db, &ambient).await?));
    }
    let explanation = explain(&builder.build().await?, auth.as_ref(), question).await;
    db.close().await;
    explanation
}

async fn identity(auth: Option<&Auth>, caller: ExplainAs<'_>) -> Result<Identity, ExplainError> {
    let (subject, email, roles) = match caller {
        ExplainAs::Anonymous => return Ok(Identity::Anonymous),
        ExplainAs::User(email) => {
            let accounts = auth.ok_or(ExplainError::NoAccounts)?.accounts();
            let user = accounts.find(email).await.map_err(|error| match error {
                AccountError::Users(UserStoreError::NotFound) => ExplainError::NoAccount(email.to_owned()),
                error => error.into(),
            })?;
            (Subject::User(user.id.clone()), user.address().cloned().map(Into::into), user.roles)
        }
        ExplainAs::Service(name) => {
            let services = auth.and_then(Auth::service_accounts).ok_or(ExplainError::NoAccounts)?;
            let account = services.find(name).await.map_err(|error| match error {
                ServiceAccountError::NotFound => ExplainError::NoServiceAccount(name.to_owned()),
                error => error.into(),
            })?;
            if account.disabled {
                return Err(ExplainError::DisabledServiceAccount(name.to_owned()));
            }
            (Subject::Service(account.id), None, account.roles)
        }
    };
    // A credential without its own scopes.
    let credential = Credential::Jwt { expires_at: Timestamp::MAX };
    Ok(Identity::Known(Arc::new(Principal { subject, email, roles, credential })))
}
