//! Mail: passes the mails of `gatewright_auth` to the outgoing queue, and in dev mode to the mailbox under `/dev/mail`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use gatewright_auth::users::BoxError;
use gatewright_auth::{Auth, EmailAddress, Mail, MailKind, Mailer, NewDevice};
use gatewright_base::Ambient;
use gatewright_db::{Db, Step};
use gatewright_http::Origin;
use gatewright_http::locale::Presentation;
use gatewright_mail::stored::{self, MailKeys, MailQueue, MailQueueInitError};
use gatewright_mail::{
    Address, Both, DevMailbox, Device, Invited, Kind, Letter, Mailbox, Outgoing, QueuePolicy, Sender, Smtp,
    SmtpSettings, SmtpUrl, Templates, Written, dev,
};

use super::{BuildError, branding};
use crate::Config;
use crate::config::Email;
use crate::functions::Message;

/// How long an answer of the development mailbox waits for mails that were just requested.
const TIMEOUT: Duration = Duration::from_secs(1);

/// How long a mail of a function is tried.
const LIFETIME: Duration = Duration::from_hours(24);

/// The table of the mail queue, if the build has one.
pub(crate) const SCHEMA: Option<(&str, &[Step])> = Some((stored::COMPONENT, stored::STEPS));

/// The queue of outgoing mails, if there is one. Cheap to clone.
#[derive(Clone)]
pub(crate) struct MailService {
    outgoing: Option<Outgoing>,
    /// The templates of the queue.
    templates: Option<Templates>,
    /// What they show of the product. It needs a restart to change.
    presentation: Option<Presentation>,
    /// The queue in the database, if a mail server is configured.
    stored: Option<MailQueue>,
    /// Only in dev mode.
    mailbox: Option<DevMailbox>,
}

impl MailService {
    /// Starts the queue if there is a sender: the configured mail server, the development mailbox, or both. With a mail
    /// server it is the queue in the database, except if there is no secret to seal letters with.
    pub(crate) async fn open(config: &Config, db: &Db, ambient: &Ambient) -> Result<Self, BuildError> {
        let stored = queue(config, db, ambient).await?;
        let mailbox = config.server.dev_mode.then(DevMailbox::new);
        let smtp = config.email.as_ref().map(smtp).transpose()?;
        let sender: Option<Arc<dyn Sender>> = match (mailbox.clone(), smtp) {
            (Some(mailbox), Some(smtp)) => Some(Arc::new(Both::new(mailbox, Arc::new(smtp)))),
            (Some(mailbox), None) => Some(Arc::new(mailbox)),
            (None, Some(smtp)) => Some(Arc::new(smtp)),
            (None, None) => None,
        };
        let Some(sender) = sender else { return Ok(Self::without_sender(stored, mailbox)) };
        let presentation = presentation(config).map_err(BuildError::Mail)?;
        let templates = compiled(presentation.clone(), config.email.as_ref()).map_err(BuildError::Mail)?;
        let (secret, previous) = (&config.auth.jwt_secret, &config.auth.jwt_previous_secrets);
        let stored = stored.filter(|_| !secret.is_empty());
        let (policy, used) = (QueuePolicy::default(), templates.clone());
        let outgoing = match stored.clone() {
            Some(queue) => Outgoing::start_stored(sender, used, policy, queue, MailKeys::new(secret, previous)),
            None => Outgoing::start(sender, used, ambient.clone(), policy),
        };
        let (templates, presentation) = (Some(templates), Some(presentation));
        Ok(Self { outgoing: Some(outgoing), templates, presentation, stored, mailbox })
    }

    fn without_sender(stored: Option<MailQueue>, mailbox: Option<DevMailbox>) -> Self {
        Self { outgoing: None, templates: None, presentation: None, stored, mailbox }
    }

    /// The templates of a configuration, tried and not used yet, with everything else as at the start; `None` if no mail is sent, or if the
    /// configuration has no `[email]`.
    pub(super) fn prepared(&self, config: &Config) -> Result<Option<Templates>, String> {
        let (Some(presentation), Some(email)) = (&self.presentation, &config.email) else { return Ok(None) };
        compiled(presentation.clone(), Some(email)).map(Some)
    }

    /// Writes mails with other templates from now on.
    pub(super) fn replace(&self, others: &Templates) {
        if let Some(templates) = &self.templates {
            templates.replace(others);
        }
    }

    /// Whether mails are written with templates.
    pub(super) fn has_templates(&self) -> bool {
        self.templates.is_some()
    }

    /// The outgoing queue, if there is a sender.
    pub(crate) fn outgoing(&self) -> Option<&Outgoing> {
        self.outgoing.as_ref()
    }

    /// The queue in the database, if it is used.
    pub(crate) fn stored(&self) -> Option<&MailQueue> {
        self.stored.as_ref()
    }

    /// Whether the queue in the database is used.
    pub(crate) fn is_stored(&self) -> bool {
        self.stored.is_some()
    }

    /// Counters of the mails of this process, by name; `None` if there is no sender.
    pub(crate) fn counts(&self) -> Option<[(&'static str, u64); 6]> {
        let counts = self.outgoing.as_ref()?.counts();
        Some([
            ("waiting", counts.waiting),
            ("untried", counts.untried),
            ("sent", counts.sent),
            ("retries", counts.retries),
            ("failed", counts.failed),
            ("dropped", counts.dropped),
        ])
    }

    /// Whether mails can be sent.
    pub(crate) fn can_send(&self) -> bool {
        self.outgoing.is_some()
    }

    /// Whether a mail can be sent to this address.
    pub(crate) fn is_address(address: &str) -> bool {
        Address::parse(address).is_ok()
    }

    /// Puts a mail of a function into the queue. Fails with the reason in words.
    pub(crate) async fn send(&self, Message { to, subject, text, html }: Message) -> Result<(), String> {
        let outgoing = self.outgoing.as_ref().ok_or("no mail server is configured")?;
        let letter = Letter::written(to, Written { subject, text, html }, LIFETIME);
        outgoing.offer(letter).await.map_err(|error| error.to_string())
    }

    /// The mailer for authentication.
    pub(crate) fn mailer(&self) -> Option<Arc<dyn Mailer>> {
        let outgoing = self.outgoing.clone()?;
        Some(Arc::new(Queue { outgoing: Some(outgoing), stored: self.stored.clone() }))
    }

    /// `/dev/mail` and `/dev/mail.json` in dev mode; nothing outside of it.
    pub(super) fn routes(&self, config: &Config, auth: Option<&Auth>) -> Router {
        let origin = Origin::of(&config.public_url());
        let (Some(mailbox), Some(outgoing), Some(origin)) = (&self.mailbox, &self.outgoing, origin) else {
            return Router::new();
        };
        let readers =
            if config.server.allow_public_dev_mode { dev::Readers::Anybody } else { dev::Readers::ThisComputer };
        let routes = dev::routes(mailbox.clone(), outgoing.clone(), origin, readers);
        match auth {
            Some(auth) => routes.layer(from_fn_with_state(auth.clone(), settled)),
            None => routes,
        }
    }

    /// Sends the remaining mails, for at most this long.
    pub(crate) async fn close(&self, within: Duration) {
        if let Some(outgoing) = &self.outgoing {
            outgoing.drain(within).await;
        }
    }
}

/// The mail queue in the database; `None` if no mail server is configured.
pub(crate) async fn queue(
    config: &Config,
    db: &Db,
    ambient: &Ambient,
) -> Result<Option<MailQueue>, MailQueueInitError> {
    if config.email.is_none() {
        return Ok(None);
    }
    MailQueue::open(db.clone(), ambient.clone(), config.database.create_tables).await.map(Some)
}

/// Loads the templates: the built-in ones, and those of the configured folder.
pub(crate) fn templates(config: &Config) -> Result<Templates, String> {
    compiled(presentation(config)?, config.email.as_ref())
}

fn compiled(presentation: Presentation, email: Option<&Email>) -> Result<Templates, String> {
    let folder = email.and_then(|email| email.templates.as_deref());
    Templates::for_product(presentation, folder).map_err(|error| error.to_string())
}

/// What mails show of the product. Its name is that of `[branding]`, or the sender's name.
fn presentation(config: &Config) -> Result<Presentation, String> {
    let from = config.email.as_ref().and_then(|email| Mailbox::parse(&email.from).ok());
    // Mail programs load a logo from the address at which browsers reach the service.
    let logo = config.public_url().join(branding::LOGO).map_or_else(|_| branding::LOGO.to_owned(), String::from);
    let mut branding = config.branding.shown([&logo, branding::LOGO_DARK]);
    branding.name = branding.name.or_else(|| from.as_ref().and_then(Mailbox::name).map(str::to_owned));
    let languages = config.branding.languages().map_err(|error| error.to_string())?;
    Ok(Presentation::new(branding, languages))
}

fn smtp(email: &Email) -> Result<Smtp, BuildError> {
    let url = SmtpUrl::parse(&email.smtp_url).map_err(|error| BuildError::Mail(format!("email.smtp_url {error}")))?;
    let from = Mailbox::parse(&email.from).map_err(|error| BuildError::Mail(format!("email.from: {error}")))?;
    Smtp::new(SmtpSettings::new(url, from)).map_err(|error| BuildError::Mail(error.to_string()))
}

/// Waits until the mails of earlier requests are in the queue, so that the mailbox can wait for the queue.
async fn settled(State(auth): State<Auth>, request: Request, next: Next) -> Response {
    auth.settle(TIMEOUT).await;
    next.run(request).await
}

/// Sends nothing, but removes the letters of deleted accounts; `None` if none are stored.
pub(crate) async fn forgetting(
    config: &Config,
    db: &Db,
    ambient: &Ambient,
) -> Result<Option<Arc<dyn Mailer>>, MailQueueInitError> {
    let Some(stored) = queue(config, db, ambient).await? else { return Ok(None) };
    Ok(Some(Arc::new(Queue { outgoing: None, stored: Some(stored) })))
}

/// The queue as authentication sees it.
struct Queue {
    outgoing: Option<Outgoing>,
    stored: Option<MailQueue>,
}

#[async_trait]
impl Mailer for Queue {
    async fn forget(&self, address: &EmailAddress) -> Result<(), BoxError> {
        if let Some(stored) = &self.stored {
            stored.forget(address.as_str()).await?;
        }
        Ok(())
    }

    async fn send(&self, mail: Mail) -> Result<(), BoxError> {
        let outgoing = self.outgoing.as_ref().ok_or("this program sends no mails")?;
        let kind = match mail.kind {
            MailKind::MagicLink => Kind::MagicLink,
            MailKind::EmailCode => Kind::EmailCode,
            MailKind::EmailVerification => Kind::EmailVerification,
            MailKind::PasswordReset => Kind::PasswordReset,
            MailKind::Invitation => Kind::Invitation,
            MailKind::EmailChange => Kind::EmailChange,
            MailKind::EmailChanged => Kind::EmailChanged,
            MailKind::EmailChangeUndone => Kind::EmailChangeUndone,
            MailKind::PasskeyAdded => Kind::PasskeyAdded,
            MailKind::TwoFactorEnabled => Kind::TwoFactorEnabled,
            MailKind::TwoFactorDisabled => Kind::TwoFactorDisabled,
            MailKind::BackupCodesReplaced => Kind::BackupCodesReplaced,
            MailKind::NewDevice => Kind::NewDevice,
            MailKind::TokenCreated => Kind::TokenCreated,
            MailKind::ProgramConnected => Kind::ProgramConnected,
            MailKind::ProviderLinked => Kind::ProviderLinked,
            MailKind::MembersChanged => Kind::MembersChanged,
        };
        let letter = Letter::new(kind, mail.to, mail.link, mail.lifetime).language(mail.language);
        let (tenant, inviter) =
            (mail.invitation.tenant.unwrap_or_default(), mail.invitation.inviter.unwrap_or_default());
        let invitation = Invited { tenant, inviter };
        let account = mail.account.map(Into::into);
        let letter = Letter { account, credentials: mail.credentials, invitation, change: mail.change, ..letter };
        let letter = match mail.code {
            Some(code) => letter.code(code),
            None => letter,
        };
        outgoing.post(match mail.new_device {
            Some(device) => letter.device(in_words(device)),
            None => letter,
        });
        Ok(())
    }
}

fn in_words(device: NewDevice) -> Device {
    Device {
        time: device.at.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        name: device.name,
        address: device.address.map_or_else(|| "unknown".to_owned(), |address| address.to_string()),
    }
}
