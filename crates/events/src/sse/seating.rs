//! Opens a stream for a request.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use parking_lot::Mutex;

use super::body::EventBody;
use super::broker::Broker;
use super::catch_up::{self, Resume};
use super::frame::{self, Gap, OPENING};
use super::registry::{Most, NoSeat};
use super::ring::{End, Ring};
use super::seat::{Name, Seat};
use super::subscribe::{MAX_SUBSCRIBER_ID, Refused, Subscribe};
use super::subscriber::{Due, Progress, Subscriber};
use crate::{Cursor, EventLog};

/// The position from which a stream of a log starts.
struct Start {
    /// What the client is told.
    ready: Cursor,
    /// The position that it has passed.
    passed: i64,
    /// The generation of the log to which that belongs.
    generation: u64,
    from: Resume,
}

impl Start {
    fn new(log: &EventLog, since: Option<Cursor>) -> Self {
        let (now, generation) = log.now();
        let generation = generation.number;
        match since {
            // Ahead of this process, the client may have the position from another server, or the database was
            // restored: only the log shows it. The client is not told that it has events that may be still owed.
            Some(since) if since.log == now.log => {
                let (passed, from) = (since.position, Resume::Client(since.witness));
                let ready = if passed > now.position { now } else { since };
                Self { ready, passed, generation, from }
            }
            Some(_) => Self { passed: now.position, ready: now, generation, from: Resume::Unknown },
            None => Self { passed: now.position, ready: now, generation, from: Resume::Now },
        }
    }

    fn resumes(&self) -> bool {
        self.from != Resume::Now
    }
}

impl Broker {
    /// Seats a subscriber. From here on it gets every event that is published.
    pub(super) fn subscribe(self: &Arc<Self>, request: Subscribe) -> Result<EventBody, Refused> {
        let name = self.name_of(&request)?;
        let start = match &self.options.log {
            Some(log) => {
                let since = request.params.since.as_deref();
                let since = since.map(|since| Cursor::parse(since).ok_or(Refused::Cursor)).transpose()?;
                Some(Start::new(log, since))
            }
            None => None,
        };
        let opening = start.as_ref().map_or(Bytes::from_static(OPENING), |start| frame::ready(&start.ready));
        let progress = start.as_ref().map(|start| {
            let Start { passed, generation, .. } = *start;
            Mutex::new(Progress { generation, passed, behind: start.resumes(), ..Progress::default() })
        });
        let blocks = request.params.block && self.options.allow_client_slow_mode;
        let now = self.now();
        let (table, seat) = (request.tables.seat(), Seat::of(&request));
        let listed = table.clone();
        let make = |id, name, seat, condition| Subscriber {
            id,
            seat,
            blocks,
            condition,
            ring: Ring::new(blocks, opening),
            blocking: Mutex::new({
                let blocked = request.tables.names().iter().filter(|_| blocks);
                blocked.map(|table| self.blocking.enter(table.clone(), self.options.block_timeout)).collect()
            }),
            table: listed,
            tables: request.tables,
            caller: request.caller,
            name,
            filter: Mutex::new(request.filter),
            recheck: request.recheck,
            admit: request.admit,
            tags: request.tags,
            views: request.views,
            progress,
            seatless: false.into(),
            due: Due::first(now, id),
        };
        let seated = {
            let mut registry = self.registry.lock();
            let most = Most {
                all: self.options.max_subscribers,
                caller: self.options.max_subscribers_per_caller,
                address: self.options.max_subscribers_per_address,
            };
            let seated = registry.seat(most, &table, name, seat, request.condition, make);
            if seated.is_ok() {
                self.queue.set_asleep(false);
            }
            seated
        };
        match seated {
            Ok((subscriber, replaced)) => {
                if let Some(replaced) = replaced {
                    replaced.end(End::Flushed);
                }
                if let Some(start) = start {
                    if start.resumes() {
                        tokio::spawn(catch_up::run(self.clone(), subscriber.clone(), Gap::Expired, start.from));
                    }
                    // The streams that were open when the log got a new name did not include this one.
                    if self.options.log.as_ref().is_some_and(|log| log.generation().number != start.generation) {
                        self.fall_behind(&subscriber);
                    }
                }
                Ok(EventBody::new(self.clone(), subscriber))
            }
            Err(no_seat) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Err(match no_seat {
                    NoSeat::Closing => Refused::ShuttingDown,
                    NoSeat::Share => Refused::TooMany { retry_after: self.options.heartbeat },
                    NoSeat::Full => {
                        if !self.full.swap(true, Ordering::Relaxed) {
                            tracing::warn!(seats = self.options.max_subscribers, "all event stream seats are taken");
                        }
                        Refused::TooMany { retry_after: self.options.heartbeat }
                    }
                })
            }
        }
    }

    /// The name under which the caller's stream can be replaced; `None` for a caller without a principal.
    fn name_of(&self, request: &Subscribe) -> Result<Option<Name>, Refused> {
        let Some(subscriber_id) = &request.params.subscriber_id else {
            return Ok(None);
        };
        if subscriber_id.len() > MAX_SUBSCRIBER_ID {
            return Err(Refused::SubscriberId);
        }
        let principal = self.options.principal.as_ref().and_then(|name| name(&request.caller));
        Ok(principal.map(|principal| Name {
            table: request.tables.named(),
            principal,
            subscriber_id: subscriber_id.clone(),
        }))
    }
}
