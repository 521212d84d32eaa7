//! What functions that listen to events need of the server: the outbox, earlier values, and a relay.

use std::sync::Arc;
use std::time::Duration;

use gatewright_base::Ambient;
use gatewright_entities::Entities;
use gatewright_events::outbox::{ConsumerError, RelayBuilder};
use gatewright_functions::Trigger;
use gatewright_limits::Store;

use super::background::Background;
use super::mail::Mails;
use super::{Functions, on};
use crate::Config;
use crate::app::mail::MailService;

/// How long an outbox that functions turned on keeps dispatched events.
const KEPT: Duration = Duration::from_hours(7 * 24);

impl Functions {
    /// Turns the outbox on, if functions listen to events and it is off.
    pub(crate) fn turn_outbox_on(&self, config: &mut Config) {
        if self.all().iter().any(|function| matches!(function.trigger, Trigger::On { .. })) && !config.outbox.enabled {
            config.outbox.enabled = true;
            config.outbox.retention = Some(KEPT);
        }
    }

    /// Sends the mails of functions by this service. `store` counts them for all replicas.
    pub(crate) fn send_by(&self, service: &MailService, store: Option<Arc<dyn Store>>, ambient: &Ambient) {
        self.0.mails.get_or_init(|| Mails::new(service, store, ambient));
    }

    /// The entities of whose updates functions get the earlier values.
    pub(crate) fn wants_previous(&self, config: &Config) -> Vec<String> {
        on::of_updates(self, config)
    }

    /// The relay with the functions that listen as consumers.
    pub(crate) fn listening(
        &self,
        relay: RelayBuilder,
        config: &Config,
        entities: &Entities,
    ) -> Result<RelayBuilder, ConsumerError> {
        let background = Background::new(self, entities);
        let consumers = on::consumers(self, config, &background, entities)?;
        consumers.into_iter().try_fold(relay, RelayBuilder::declare)
    }
}

/// The entities of whose updates functions get the earlier values, if functions of the configuration listen to events at all. Functions
/// with faults do not.
pub(crate) fn listen(config: &Config) -> Option<Vec<String>> {
    let files = std::fs::read_dir(config.functions.used_folder()?).ok()?.flatten();
    let mut texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
    // Compiling takes longer than reading.
    if !texts.any(|text| text.contains("on(")) {
        return None;
    }
    let functions = Functions::load(config, &Ambient::system()).ok().flatten()?;
    let listens = functions.all().iter().any(|function| matches!(function.trigger, Trigger::On { .. }));
    listens.then(|| functions.wants_previous(config))
}
