use gatewright_mail::{Mailbox, SmtpUrl};

use super::Faults;
use crate::app::mail::templates;
use crate::config::Config;

pub(super) fn check(config: &Config, faults: &mut Faults) {
    let Some(email) = &config.email else { return };
    if let Err(error) = SmtpUrl::parse(&email.smtp_url) {
        faults.add("email.smtp_url", error.to_string());
    }
    match Mailbox::parse(&email.from) {
        Err(error) => faults.add("email.from", error.to_string()),
        Ok(_) => {
            if let Err(error) = templates(config) {
                faults.add("email.templates", error);
            }
        }
    }
}
