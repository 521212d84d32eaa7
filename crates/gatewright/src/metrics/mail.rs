use jiff::Timestamp;
use metrics::{Key, Label, Recorder};

use super::{METADATA, Metrics, counter, gauge};
use crate::app::mail::MailService;

const QUEUED: &str = "gatewright_mail_queue";
const OLDEST: &str = "gatewright_mail_oldest_pending_seconds";

impl Metrics {
    /// Updates the numbers of mails. Those of the queue count all servers.
    pub(crate) async fn observe_mail(&self, mail: &MailService, now: Timestamp) {
        let Some(outgoing) = mail.outgoing() else { return };
        let recorder = &self.0.recorder;
        let counts = outgoing.counts();
        for (name, value, about) in [
            ("gatewright_mail_sent_total", counts.sent, "Mails that a mail server took"),
            ("gatewright_mail_retries_total", counts.retries, "Failed attempts after which another one follows"),
            ("gatewright_mail_failed_total", counts.failed, "Mails given up"),
            ("gatewright_mail_dropped_total", counts.dropped, "Mails dropped because a queue was full"),
        ] {
            counter(recorder, name, about).absolute(value);
        }
        let Some(stored) = mail.stored().filter(|_| self.0.mail.is_due()) else { return };
        match stored.oldest_pending().await {
            Err(error) => tracing::debug!(%error, "the mail queue cannot be read"),
            Ok(oldest) => {
                let age = oldest.map_or(0, |oldest| now.as_second().saturating_sub(oldest.as_second()));
                let about = "For how long the oldest pending mail has waited";
                gauge(recorder, OLDEST, about).set(i32::try_from(age.max(0)).unwrap_or(i32::MAX));
            }
        }
        match stored.counts().await {
            Err(error) => tracing::debug!(%error, "the mail queue cannot be counted"),
            Ok(counts) => {
                recorder.describe_gauge(QUEUED.into(), None, "Mails in the queue, by status".into());
                for (status, mails) in
                    [("pending", counts.pending), ("failed", counts.failed), ("expired", counts.expired)]
                {
                    let key = Key::from_parts(QUEUED, vec![Label::new("status", status)]);
                    recorder.register_gauge(&key, &METADATA).set(i32::try_from(mails).unwrap_or(i32::MAX));
                }
            }
        }
    }
}
