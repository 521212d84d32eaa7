use jiff::Timestamp;

use super::Metrics;
use crate::app::mail::MailService;

impl Metrics {
    /// In a build without mail, there are no numbers of it.
    pub(crate) async fn observe_mail(&self, _: &MailService, _: Timestamp) {}
}
