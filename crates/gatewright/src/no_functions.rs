//! Without the feature `functions` there are none, and a configuration with a folder of them is refused.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use gatewright_base::Ambient;
use gatewright_entities::{Builder as EntitiesBuilder, Entities};
use gatewright_events::outbox::{ConsumerError, RelayBuilder};
use gatewright_limits::Store;

use crate::app::mail::MailService;
use crate::jobs::{Action, Listed};
use crate::{Config, FunctionInfo};

/// Before every path of a route.
pub(crate) const PREFIX: &str = "/fn";

/// There are none.
#[derive(Clone)]
pub(crate) struct Functions(Infallible);

impl Functions {
    pub(crate) fn load(config: &Config, _: &Ambient) -> Result<Option<Self>, String> {
        match config.functions.used_folder() {
            Some(folder) => Err(format!("{}: {}", folder.display(), crate::carriers::without("functions"))),
            None => Ok(None),
        }
    }

    pub(crate) fn around(&self, _: EntitiesBuilder) -> EntitiesBuilder {
        match self.0 {}
    }

    pub(crate) fn routes(&self, _: &Config, _: &Entities) -> Router {
        match self.0 {}
    }

    pub(crate) fn turn_outbox_on(&self, _: &mut Config) {
        match self.0 {}
    }

    pub(crate) fn send_by(&self, _: &MailService, _: Option<Arc<dyn Store>>, _: &Ambient) {
        match self.0 {}
    }

    pub(crate) fn wants_previous(&self, _: &Config) -> Vec<String> {
        match self.0 {}
    }

    pub(crate) fn listening(&self, _: RelayBuilder, _: &Config, _: &Entities) -> Result<RelayBuilder, ConsumerError> {
        match self.0 {}
    }

    pub(crate) fn jobs(&self) -> Vec<Listed> {
        match self.0 {}
    }

    pub(crate) fn job_actions(&self, _: &Entities) -> BTreeMap<String, Arc<dyn Action>> {
        match self.0 {}
    }

    pub(crate) fn open_routes(&self) -> impl Iterator<Item = (&str, String)> {
        match self.0 {}
        #[expect(unreachable_code, reason = "names the type")]
        std::iter::empty()
    }
}

/// Fails if there is a folder of functions.
pub fn check_functions(config: &Config) -> Result<usize, String> {
    Functions::load(config, &Ambient::system()).map(|_| 0)
}

/// None listens.
pub(crate) fn listen(_: &Config) -> Option<Vec<String>> {
    None
}

/// A mail that no function sends.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) to: String,
    pub(crate) subject: String,
    pub(crate) text: String,
    pub(crate) html: Option<String>,
}

/// Fails if there is a folder of functions.
pub fn functions(config: &Config) -> Result<Vec<FunctionInfo>, String> {
    Functions::load(config, &Ambient::system()).map(|_| Vec::new())
}

/// Nothing is called.
pub(crate) fn is_host(_: &str) -> bool {
    true
}
