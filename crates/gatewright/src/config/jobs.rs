use gatewright_base::Secret;

use super::read::Section;

/// `[[job]]`: what the server does at times. It calls a URL or emits an event.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its stable name.
    pub name: String,
    /// Five fields of cron.
    pub schedule: String,
    /// `UTC`, or a name of the IANA database.
    pub timezone: String,
    /// Gets a signed POST.
    pub url: Option<String>,
    /// Signs it.
    pub secret: Option<Secret>,
    /// Whether the URL may be an address that is not public. Absent: as for webhooks.
    pub allow_private: Option<bool>,
    /// The type of the event for consumers of the outbox.
    pub emit: Option<String>,
}

impl Job {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        Self {
            name: section.required("name", "Its name. It must not change: a new name is a new job."),
            schedule: section.required(
                "schedule",
                "[Five fields of cron](jobs.md#schedules): minute, hour, day of the month, month, day of the week.",
            ),
            timezone: section.value(
                "timezone",
                "UTC".to_owned(),
                "The time zone of the schedule: `\"UTC\"` or a name such as `\"Europe/Berlin\"`.",
            ),
            url: section.optional("url", "The URL that gets a signed POST. Only without `emit`."),
            secret: section.optional("secret", "Secret that signs it: `whsec_…`. Only with `url`."),
            allow_private: section.derived(
                "allow_private",
                "as `outbox.allow_private_networks`",
                "Whether `url` may go to loopback and private addresses.",
            ),
            emit: section.optional("emit", "The type of an event for [consumers](outbox.md). Only without `url`."),
        }
    }
}
