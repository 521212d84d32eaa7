use std::sync::Arc;
use std::time::Duration;

use gatewright_events::fanout::Attached;
use gatewright_events::log::Following;
use gatewright_events::outbox::Relay;
use parking_lot::Mutex;

use super::files;
use super::housekeeping::Housekeeper;
use super::limits::LimitsTask;
use crate::jobs::JobsTask;
use crate::replicas::Replica;

/// The background tasks. The [`App`](super::App) and every clone of its router own them together, and they end with the last
/// owner: a program that keeps only the router still delivers. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Tasks(Arc<Mutex<Running>>);

/// The running tasks. Each ends when it is dropped.
#[derive(Default)]
pub(super) struct Running {
    pub(super) relay: Option<Relay>,
    pub(super) fanout: Option<Attached>,
    /// Reads the event log.
    pub(super) following: Option<Following>,
    pub(super) limits: Vec<LimitsTask>,
    pub(super) housekeeper: Option<Housekeeper>,
    pub(super) jobs: Option<JobsTask>,
    pub(super) replica: Option<Replica>,
    /// Deletes the bytes of files.
    pub(super) files: Option<files::Task>,
}

impl Tasks {
    pub(super) fn own(&self, running: Running) {
        *self.0.lock() = running;
    }

    /// Sends the remaining events to the other replicas, and finishes the deliveries that have begun, each for at most
    /// `within`. Then this server is none of the replicas any more.
    pub(super) async fn stop(&self, within: Duration) {
        let Running { relay, fanout, following, limits, housekeeper, jobs, replica, files } =
            std::mem::take(&mut *self.0.lock());
        drop((following, limits, housekeeper, files));
        // First, because jobs write what the others deliver.
        if let Some(jobs) = jobs {
            jobs.stop(within).await;
        }
        if let Some(fanout) = fanout {
            fanout.stop(within).await;
        }
        if let Some(relay) = relay {
            relay.stop(within).await;
        }
        if let Some(replica) = replica
            && tokio::time::timeout(within, replica.leave()).await.is_err()
        {
            tracing::debug!("the database did not answer when this server left");
        }
    }
}
