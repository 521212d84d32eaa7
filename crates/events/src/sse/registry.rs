use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::subscriber::Subscriber;
use super::wheel::Wheel;

/// What `subscriber_id` names: a stream of one caller on one table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Name {
    pub(super) table: Arc<str>,
    pub(super) principal: String,
    pub(super) subscriber_id: String,
}

/// The seats: who listens to what. Always behind the broker's lock, which makes the cap exact.
///
/// A stream that was ended gets no more events at once, and gives its seat back when its connection lets go of it: until
/// then it still costs what a stream costs.
#[derive(Default)]
pub(super) struct Registry {
    tables: HashMap<Arc<str>, Table>,
    named: HashMap<Name, Arc<Subscriber>>,
    /// The same streams, by when they are to be looked after.
    wheel: Wheel<Arc<Subscriber>>,
    taken: usize,
    last_id: u64,
    closing: bool,
}

#[derive(Default)]
struct Table {
    members: HashMap<u64, Arc<Subscriber>>,
    /// The members as a list, made when an event comes and dropped when a member does: thousands of joins in a row cost
    /// one copy, and events are handed out without the lock.
    listed: Option<Arc<[Arc<Subscriber>]>>,
}

/// Why there is no seat.
pub(super) enum NoSeat {
    Full,
    Closing,
}

impl Registry {
    /// Seats the subscriber that `make` builds. Where a stream bears the same name, its seat is handed over and it is
    /// returned, to be ended.
    pub(super) fn seat(
        &mut self,
        max: usize,
        name: Option<Name>,
        make: impl FnOnce(u64, Option<Name>) -> Subscriber,
    ) -> Result<(Arc<Subscriber>, Option<Arc<Subscriber>>), NoSeat> {
        if self.closing {
            return Err(NoSeat::Closing);
        }
        let replaced = match name.as_ref().and_then(|name| self.named.get(name)) {
            Some(named) => Some(named.clone()),
            None if self.taken >= max => return Err(NoSeat::Full),
            None => None,
        };
        match &replaced {
            Some(replaced) => {
                replaced.seatless.store(true, Ordering::Relaxed);
                self.unlist(replaced);
            }
            None => self.taken += 1,
        }
        self.last_id += 1;
        let subscriber = Arc::new(make(self.last_id, name));
        if let Some(name) = &subscriber.name {
            self.named.insert(name.clone(), subscriber.clone());
        }
        let table = self.tables.entry(subscriber.table.clone()).or_default();
        table.members.insert(subscriber.id, subscriber.clone());
        table.listed = None;
        self.put_in(&subscriber);
        Ok((subscriber, replaced))
    }

    /// The streams to be looked after at the tick `now`.
    pub(super) fn take_due(&mut self, now: u64) -> Vec<Arc<Subscriber>> {
        self.wheel.turn(now)
    }

    /// Has a stream looked after again, unless it is no longer listed.
    pub(super) fn put_back(&mut self, subscriber: &Arc<Subscriber>) {
        if self.tables.get(&subscriber.table).is_some_and(|table| table.members.contains_key(&subscriber.id)) {
            self.put_in(subscriber);
        }
    }

    fn put_in(&mut self, subscriber: &Arc<Subscriber>) {
        let bucket = self.wheel.put(subscriber.next_due(), subscriber.id, subscriber.clone());
        subscriber.due.bucket.store(bucket, Ordering::Relaxed);
    }

    /// No event goes to this stream any more. Harmless when that is so already.
    pub(super) fn unlist(&mut self, subscriber: &Subscriber) {
        self.wheel.take(subscriber.due.bucket.load(Ordering::Relaxed), subscriber.id);
        if let Some(table) = self.tables.get_mut(&subscriber.table)
            && table.members.remove(&subscriber.id).is_some()
        {
            table.listed = None;
            if table.members.is_empty() {
                self.tables.remove(&subscriber.table);
            }
        }
        if let Some(name) = &subscriber.name
            && self.named.get(name).is_some_and(|named| named.id == subscriber.id)
        {
            self.named.remove(name);
        }
    }

    /// The stream's connection is gone, and its seat is free if it still had one. To be called once for each.
    pub(super) fn release(&mut self, subscriber: &Subscriber) {
        self.unlist(subscriber);
        if !subscriber.seatless.load(Ordering::Relaxed) {
            self.taken -= 1;
        }
    }

    /// The streams of a table.
    pub(super) fn of(&mut self, table: &str) -> Option<Arc<[Arc<Subscriber>]>> {
        let table = self.tables.get_mut(table)?;
        Some(table.list())
    }

    /// All streams, by table.
    pub(super) fn all(&mut self) -> Vec<Arc<[Arc<Subscriber>]>> {
        self.tables.values_mut().map(Table::list).collect()
    }

    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    /// Nobody is seated from now on.
    pub(super) fn close(&mut self) {
        self.closing = true;
    }
}

impl Table {
    fn list(&mut self) -> Arc<[Arc<Subscriber>]> {
        let members = &self.members;
        self.listed.get_or_insert_with(|| members.values().cloned().collect()).clone()
    }
}
