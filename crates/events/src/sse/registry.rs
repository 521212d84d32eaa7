use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::condition::{Condition, Conditions};
use super::seat::{Limit, Name, Seat, Share};
use super::subscriber::Subscriber;
use super::tables::SEVERAL;
use super::wheel::Wheel;

/// The seats: which streams are open on which table. Only used under the broker's lock, which makes the limit exact.
///
/// An ended stream gets no more events at once, and releases its seat when its connection drops it: until then it still
/// uses resources.
#[derive(Default)]
pub(super) struct Registry {
    tables: HashMap<Arc<str>, Table>,
    named: HashMap<Name, Arc<Subscriber>>,
    /// The same streams, by when they are to be looked after.
    wheel: Wheel<Arc<Subscriber>>,
    taken: usize,
    /// By the keys of shares.
    by_share: HashMap<Arc<str>, usize>,
    last_id: u64,
    closing: bool,
}

#[derive(Default)]
struct Table {
    members: HashMap<u64, Arc<Subscriber>>,
    conditions: Conditions,
    /// The members as lists, made when an event comes and dropped when a member does: thousands of joins in a row cost
    /// one copy, and events are handed out without the lock.
    listed: Option<Arc<Listed>>,
}

/// Some streams.
pub(super) type Members = Arc<[Arc<Subscriber>]>;

/// A table's streams.
pub(super) struct Listed {
    /// Streams of every event.
    pub(super) open: Members,
    /// Streams with a condition, by their callers.
    pub(super) filtered: Vec<(Arc<str>, Members)>,
    /// The tables of any of them.
    pub(super) tables: HashSet<Arc<str>>,
}

/// The number of seats.
#[derive(Debug, Clone, Copy)]
pub(super) struct Most {
    pub(super) all: usize,
    pub(super) caller: usize,
    pub(super) address: usize,
}

impl Most {
    fn of(self, share: &Share) -> usize {
        let one = match share.limit {
            Limit::Caller => self.caller,
            Limit::Address => self.address,
        };
        one.saturating_mul(share.times)
    }
}

/// Why there is no seat.
pub(super) enum NoSeat {
    Full,
    /// The limit of the caller or the address is reached.
    Share,
    Closing,
}

impl Registry {
    /// Adds the subscriber that `make` builds. If a stream has the same name, the new one takes its seat, and the old
    /// one is returned, to be ended.
    pub(super) fn seat(
        &mut self,
        most: Most,
        table: &Arc<str>,
        name: Option<Name>,
        seat: Seat,
        condition: Option<Condition>,
        make: impl FnOnce(u64, Option<Name>, Seat, Option<Condition>) -> Subscriber,
    ) -> Result<(Arc<Subscriber>, Option<Arc<Subscriber>>), NoSeat> {
        if self.closing {
            return Err(NoSeat::Closing);
        }
        let replaced = match name.as_ref().and_then(|name| self.named.get(name)) {
            Some(named) => Some(named.clone()),
            None if self.taken >= most.all => return Err(NoSeat::Full),
            None => None,
        };
        // The seat that is taken over counts as free.
        let freed = replaced.as_ref().map(|replaced| &replaced.seat);
        let is_over = |share: &Share| {
            let is_freed = freed.is_some_and(|freed| freed.shares.iter().any(|freed| freed.key == share.key));
            let most = most.of(share).saturating_add(usize::from(is_freed));
            self.by_share.get(&share.key).is_some_and(|taken| *taken >= most) || most == 0
        };
        if seat.shares.iter().any(is_over) {
            return Err(NoSeat::Share);
        }
        match &replaced {
            Some(replaced) => {
                replaced.seatless.store(true, Ordering::Relaxed);
                self.unlist(replaced);
                self.uncount(&replaced.seat);
            }
            None => self.taken += 1,
        }
        self.count(&seat);
        self.last_id += 1;
        let condition = condition.map(|condition| {
            let table = self.tables.entry(table.clone()).or_default();
            table.conditions.share(condition)
        });
        let subscriber = Arc::new(make(self.last_id, name, seat, condition));
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

    /// No more events go to this stream. May be called again.
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

    /// The stream's connection is closed: releases its seat if it still had one. Must be called once for each.
    pub(super) fn release(&mut self, subscriber: &Subscriber) {
        self.unlist(subscriber);
        if !subscriber.seatless.load(Ordering::Relaxed) {
            self.taken -= 1;
            self.uncount(&subscriber.seat);
        }
    }

    fn count(&mut self, seat: &Seat) {
        for share in &seat.shares {
            *self.by_share.entry(share.key.clone()).or_default() += 1;
        }
    }

    fn uncount(&mut self, seat: &Seat) {
        for share in &seat.shares {
            if let Some(count) = self.by_share.get_mut(&share.key) {
                *count -= 1;
                if *count == 0 {
                    self.by_share.remove(&share.key);
                }
            }
        }
    }

    /// The streams of a table.
    pub(super) fn of(&mut self, table: &str) -> Option<Arc<Listed>> {
        let table = self.tables.get_mut(table)?;
        Some(table.list())
    }

    /// The streams of several tables, by the names under which they are listed.
    pub(super) fn several(&mut self) -> Vec<(Arc<str>, Arc<Listed>)> {
        let several = self.tables.iter_mut().filter(|(name, _)| name.starts_with(SEVERAL));
        several.map(|(name, table)| (name.clone(), table.list())).collect()
    }

    /// All streams.
    pub(super) fn all(&self) -> Vec<Arc<Subscriber>> {
        self.tables.values().flat_map(|table| table.members.values().cloned()).collect()
    }

    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    /// From now on no seat is given.
    pub(super) fn close(&mut self) {
        self.closing = true;
    }
}

impl Table {
    fn list(&mut self) -> Arc<Listed> {
        let members = &self.members;
        let list = || {
            let (open, filtered): (Vec<_>, Vec<_>) =
                members.values().cloned().partition(|member| member.condition.is_none());
            let mut by_caller: HashMap<Arc<str>, Vec<Arc<Subscriber>>> = HashMap::new();
            for member in filtered {
                by_caller.entry(member.seat.lane.clone()).or_default().push(member);
            }
            let filtered = by_caller.into_iter().map(|(caller, streams)| (caller, streams.into())).collect();
            let tables = members.values().flat_map(|member| member.tables.names().iter().cloned()).collect();
            Arc::new(Listed { open: open.into(), filtered, tables })
        };
        self.listed.get_or_insert_with(list).clone()
    }
}
