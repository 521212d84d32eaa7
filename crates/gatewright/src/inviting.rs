use std::time::Duration;

use gatewright_auth::AccountError;
use gatewright_auth::plugins::invitations::{IssuedInvitation, NewInvitation};
use gatewright_base::Ambient;

use crate::accounts::told;
use crate::app::mail::MailService;
use crate::app::{BuildError, parts};
use crate::{AccountsError, Config};

/// How long a mail server may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Why an address was not invited.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InviteError {
    /// No mailer is configured, so the link would not be sent.
    #[error("no mailer configured: set [email], or set `server.dev_mode = true` to see the link here")]
    NoMailer,
    /// The mail server or the templates are configured wrongly.
    #[error(transparent)]
    Mail(#[from] BuildError),
    /// The accounts cannot be opened.
    #[error(transparent)]
    Accounts(#[from] AccountsError),
    /// The invitation was refused.
    #[error(transparent)]
    Account(#[from] AccountError),
}

/// Invites an address for trusted management, with or without a running server, and returns when the mail server has
/// accepted the mail. In dev mode without `[email]` no mail is sent: the link is in the result.
pub async fn invite(config: &Config, invitation: NewInvitation) -> Result<IssuedInvitation, InviteError> {
    if config.email.is_none() && !config.server.dev_mode {
        return Err(InviteError::NoMailer);
    }
    let ambient = Ambient::system();
    // The mailbox of dev mode is the running server's; this process has no page to show it on.
    let mut mailing = config.clone();
    mailing.server.dev_mode = false;
    let mut managed = config.clone();
    managed.server.dev_mode = true;
    let db = parts::open(&managed).await.map_err(AccountsError::from)?;
    let post = MailService::open(&mailing, &db, &ambient).await?;
    let (_, events) = Box::pin(told(&mut managed, &db, &ambient)).await.map_err(AccountsError::from)?;
    let builder = parts::auth(&managed, &db, &ambient, events.as_ref()).ok_or(AccountsError::Disabled)?;
    let builder = post.mailer().into_iter().fold(builder, gatewright_auth::AuthBuilder::mailer);
    let auth = builder.serving_nobody().build().await.map_err(AccountsError::from)?;
    let issued = auth.accounts().invite(invitation).await?;
    auth.settle(TIMEOUT).await;
    post.close(TIMEOUT).await;
    Ok(issued)
}
