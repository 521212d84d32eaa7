use gatewright_auth::{Accounts, Auth, AuthInitError};
use gatewright_base::Ambient;
use gatewright_db::OpenError;

use crate::Config;
use crate::app::parts;

/// Why accounts cannot be worked on.
#[derive(Debug, thiserror::Error)]
pub enum AccountsError {
    /// There are none.
    #[error("`auth.enabled` is false: there are no accounts")]
    Disabled,
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Authentication cannot be built.
    #[error(transparent)]
    Auth(#[from] AuthInitError),
}

/// Opens the accounts of a configuration for trusted management, beside a running server or without one.
///
/// None of the secrets that serving needs must be there: nothing is signed. The tables are made if they may be.
pub async fn accounts(config: &Config) -> Result<Accounts, AccountsError> {
    Ok(management(config).await?.accounts())
}

/// The same for all that trusted code manages: accounts, API tokens, service accounts. Nothing of it is served.
pub async fn management(config: &Config) -> Result<Auth, AccountsError> {
    let mut config = config.clone();
    // Posture decides cookies and demands secrets; neither has a part in this.
    config.server.dev_mode = true;
    let db = parts::open(&config).await?;
    let builder = parts::auth(&config, &db, &Ambient::system()).ok_or(AccountsError::Disabled)?;
    Ok(builder.build().await?)
}
