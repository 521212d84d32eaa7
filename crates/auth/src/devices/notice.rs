use std::time::Duration;

use gatewright_base::Secret;
use gatewright_http::locale::Locale;
use gatewright_limits::{Limiter, Policy};
use jiff::Timestamp;

use super::name::safe_name;
use crate::config::Limit;
use crate::foundation::Foundation;
use crate::mail::{Mail, MailKind, NewDevice};
use crate::session::Client;
use crate::users::User;

/// Mails account owners that their account was used from a new device.
pub(crate) struct Notices {
    /// The page on which devices are forgotten; absent where no notice is mailed.
    account: Option<Secret>,
    by_account: Limiter,
}

/// Limit of notices to one account in an hour. A user who gets these is informed.
const MOST: u32 = 10;
/// As long as the letter is worth sending.
const LIFETIME: Duration = Duration::from_hours(24);

impl Notices {
    pub(crate) fn new(foundation: &Foundation) -> Self {
        let config = &foundation.config;
        let public_url = config.public_url.as_ref().filter(|_| config.new_device_notice);
        let account = |url: &url::Url| Secret::new(format!("{}/account#devices", url.as_str().trim_end_matches('/')));
        let policy = Policy::new(MOST, Duration::from_hours(1), Duration::from_hours(1));
        let limit = Limit { policy, trust_forwarded_for: false };
        Self { account: public_url.map(account), by_account: foundation.limiter("mail_new_device", &limit) }
    }

    /// Mails one, off the request's path.
    pub(super) async fn send(&self, foundation: &Foundation, user: &User, client: &Client, at: Timestamp) {
        let Some(link) = self.account.clone().filter(|_| foundation.mailer.is_some()) else { return };
        if self.by_account.attempt(user.id.as_str()).await.is_err() {
            tracing::warn!(user = %user.id, "mail limit of this account reached; notice of a new device not sent");
            return;
        }
        let locale = Locale::current().presentation().locale(None);
        let name = locale.within(|| safe_name(client.user_agent()));
        let device = NewDevice { at, address: client.address(), name };
        let mail = Mail::new(MailKind::NewDevice, user.email.clone(), link, LIFETIME).new_device(device);
        foundation.mail(mail);
    }
}

impl std::fmt::Debug for Notices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notices").field("on", &self.account.is_some()).finish_non_exhaustive()
    }
}
