//! Limits for mails with a link: low enough that a mailbox is not flooded, but no client can use them up so that the
//! owner gets no mail.

use std::net::IpAddr;
use std::time::Duration;

use gatewright_http::{ClientAddr, Counted};
use gatewright_limits::{Limiter, Policy};

use crate::config::Limit;
use crate::email::EmailAddress;
use crate::foundation::Foundation;

/// The limits for mails of one kind.
///
/// A requester is a client address (an IPv6 /64). Each gets few mails for one mailbox. The first mail of a requester
/// uses another budget than its repetitions, so that a few addresses with many requests do not prevent the owner's own
/// request. If many addresses have used up both, a mail is still sent every five minutes: less than the lifetime of any
/// link, so that the newest link in the mailbox works, whoever requested it.
pub(crate) struct MailBudget {
    kind: &'static str,
    by_pair: Limiter,
    first_of_pair: Limiter,
    first_requests: Limiter,
    repetitions: Limiter,
    trickle: Limiter,
    by_network: Limiter,
}

/// The most mails to one mailbox that one requester can request in an hour.
const BY_PAIR: u32 = 10;
/// Number of requesters in an hour whose first mail for one mailbox is sent at once.
const FIRST_REQUESTS: u32 = 20;
/// Repetitions for one mailbox in an hour, of all requesters together.
const REPETITIONS: u32 = 10;
/// The most mails that one IPv6 /48 can request in an hour, of all kinds and to all mailboxes: a /48 has 65,536
/// requesters.
const BY_NETWORK: u32 = 200;
/// The interval at which a mail is sent even if all budgets are used up.
const TRICKLE: Duration = Duration::from_mins(5);

impl MailBudget {
    /// `kind` keeps mails of different kinds apart.
    pub(crate) fn new(foundation: &Foundation, kind: &'static str) -> Self {
        let limiter = |scope, attempts, window, block| {
            let policy = Policy::new(attempts, window, block);
            foundation.limiter(scope, &Limit { policy, trust_forwarded_for: false })
        };
        let (hour, half_an_hour) = (Duration::from_hours(1), Duration::from_mins(30));
        Self {
            kind,
            by_pair: limiter("mail_pair", BY_PAIR, hour, half_an_hour),
            first_of_pair: limiter("mail_first", 1, hour, hour),
            first_requests: limiter("mail_recipient_first", FIRST_REQUESTS, hour, half_an_hour),
            repetitions: limiter("mail_recipient", REPETITIONS, hour, half_an_hour),
            trickle: limiter("mail_recipient_trickle", 1, TRICKLE, TRICKLE),
            by_network: limiter("mail_network", BY_NETWORK, hour, half_an_hour),
        }
    }

    /// Counts a mail to `email` that the client at `requester` has requested, and returns whether it may be sent.
    pub(crate) async fn admits(&self, email: &EmailAddress, requester: Option<IpAddr>) -> bool {
        let mailbox = format!("{} {email}", self.kind);
        let pair = format!("{} {mailbox}", Counted::MailsToMailbox.limit_key(ClientAddr::new(requester)));
        if self.by_pair.attempt(&pair).await.is_err() {
            return false;
        }
        // A flood to many mailboxes must not fill the queue of all mails.
        if let Some(network) = Counted::Mails.share_key(ClientAddr::new(requester))
            && self.by_network.attempt(&network).await.is_err()
        {
            return false;
        }
        let first = self.first_of_pair.attempt(&pair).await.is_ok();
        let budget = if first { &self.first_requests } else { &self.repetitions };
        budget.attempt(&mailbox).await.is_ok() || self.trickle.attempt(&mailbox).await.is_ok()
    }
}
