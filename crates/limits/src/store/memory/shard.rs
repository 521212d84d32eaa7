//! The keys of one lock: a slab of slots, a table that finds them, and for each scope an order for each reason to drop one.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};

use hashbrown::HashTable;

use super::order::{Linked, Links, Order};
use crate::policy::{History, decide, give_back};
use crate::{Policy, Verdict};

/// Up to `room` keys.
pub(super) struct Shard {
    room: usize,
    hasher: RandomState,
    /// Finds the slot of a key.
    table: HashTable<u32>,
    slots: Slots,
    free: Vec<u32>,
    /// In the order of their first use. There are few: as many as the program has limiters.
    scopes: Vec<Scope>,
    /// Blocked keys of all scopes.
    blocked: usize,
}

/// The keys of one limiter.
struct Scope {
    name: Box<str>,
    /// The slots of counting keys, the longest idle first.
    counting: Order,
    /// Their number.
    counted: usize,
    /// The slots of blocked keys, by the end of their block.
    blocked: BTreeSet<(i64, u32)>,
}

/// Limit of separate scopes. Later ones share the last one.
const MAX_SCOPES: usize = 64;

struct Slots(Vec<Slot>);

struct Slot {
    key: Box<str>,
    history: History,
    /// The time from which the history has no effect.
    ends: i64,
    links: Links,
    /// The index of its scope.
    scope: u16,
}

/// The order that a slot is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Nowhere,
    Counting,
    Blocked(i64),
}

impl Shard {
    pub(super) fn new(room: usize, hasher: RandomState) -> Self {
        Self {
            room: room.min(u32::MAX as usize),
            hasher,
            table: HashTable::new(),
            slots: Slots(Vec::new()),
            free: Vec::new(),
            scopes: Vec::new(),
            blocked: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn attempt(&mut self, hash: u64, key: &str, policy: &Policy, now: i64) -> (Verdict, i64) {
        let slot = self.find(hash, key).unwrap_or_else(|| {
            let scope = self.scope(key);
            self.make_room(scope, now);
            self.occupy(hash, key, scope)
        });
        let held = self.slots.at_mut(slot);
        let before = held.place();
        let (verdict, history) = decide(policy, std::mem::take(&mut held.history), now);
        (held.ends, held.history) = (history.ends(policy), history);
        let at = held.history.counted_at();
        let after = held.place();
        // Every attempt moves a counting key to the end of its order; a block stays where it is until it ends.
        if before != after || after == Place::Counting {
            self.leave(slot, before);
            self.join(slot, after);
        }
        (verdict, at)
    }

    /// Takes back the attempt of a key that counts under the first time, at the second. The key keeps its place.
    pub(super) fn give_back(&mut self, hash: u64, key: &str, policy: &Policy, (at, now): (i64, i64)) {
        if let Some(slot) = self.find(hash, key) {
            let held = self.slots.at_mut(slot);
            held.history = give_back(policy, std::mem::take(&mut held.history), at, now);
        }
    }

    pub(super) fn forget(&mut self, hash: u64, key: &str) {
        if let Some(slot) = self.find(hash, key) {
            self.vacate(slot);
        }
    }

    /// The blocks that end after `now`, with their keys. Those that end last come first.
    pub(super) fn blocked(&self, now: i64, limit: usize) -> Vec<(i64, String)> {
        let of = |scope: &Scope| -> Vec<(i64, u32)> {
            scope.blocked.iter().rev().take_while(|(ends, _)| *ends > now).take(limit).copied().collect()
        };
        let mut live: Vec<_> = self.scopes.iter().flat_map(of).collect();
        live.sort_unstable_by(|a, b| b.cmp(a));
        live.truncate(limit);
        live.into_iter().map(|(ends, slot)| (ends, self.slots.at(slot).key.to_string())).collect()
    }

    /// Removes every key whose history has expired, and returns their number.
    pub(super) fn sweep(&mut self, now: i64) -> usize {
        let ended: Vec<u32> = self.table.iter().copied().filter(|slot| self.slots.at(*slot).ends <= now).collect();
        for slot in &ended {
            self.vacate(*slot);
        }
        ended.len()
    }

    /// The index of the scope that the text of a key begins with.
    fn scope(&mut self, key: &str) -> u16 {
        let name = key.split_once(':').map_or(key, |(scope, _)| scope);
        let index = match self.scopes.iter().position(|scope| *scope.name == *name) {
            Some(index) => index,
            None if self.scopes.len() < MAX_SCOPES => {
                self.scopes.push(Scope::new(name));
                self.scopes.len() - 1
            }
            None => MAX_SCOPES - 1,
        };
        u16::try_from(index).unwrap_or_default()
    }

    /// Makes room for one more key of a scope. With every new key, two expired ones of its scope are removed, so that idle
    /// keys do not accumulate. A full shard drops expired keys of any scope before others.
    fn make_room(&mut self, scope: u16, now: i64) {
        for _ in 0..2 {
            if let Some(slot) = self.ended(usize::from(scope), now) {
                self.vacate(slot);
            }
        }
        while self.len() >= self.room {
            let ended = (0..self.scopes.len()).find_map(|scope| self.ended(scope, now));
            let Some(slot) = ended.or_else(|| self.least_missed()) else { return };
            self.vacate(slot);
        }
    }

    /// A key of a scope whose history has expired, searched where it is likely: policies have different windows, so the
    /// key that was idle longest does not always expire first.
    fn ended(&mut self, scope: usize, now: i64) -> Option<u32> {
        const LOOKED_AT: usize = 4;
        let scope = &self.scopes[scope];
        if let Some((_, slot)) = scope.blocked.first().filter(|(ends, _)| *ends <= now) {
            return Some(*slot);
        }
        let mut next = scope.counting.first();
        for _ in 0..LOOKED_AT {
            let slot = next?;
            if self.slots.at(slot).ends <= now {
                return Some(slot);
            }
            next = Order::after(&mut self.slots, slot);
        }
        None
    }

    /// A key of the scope that has most: no limiter loses keys to another one that has more of them.
    fn least_missed(&self) -> Option<u32> {
        let crowded = self.blocked > self.room * 3 / 4;
        let soonest_block = || {
            let most = self.scopes.iter().max_by_key(|scope| scope.blocked.len())?;
            most.blocked.first().map(|(_, slot)| *slot)
        };
        let longest_idle = || self.scopes.iter().max_by_key(|scope| scope.counted)?.counting.first();
        if crowded { soonest_block().or_else(longest_idle) } else { longest_idle().or_else(soonest_block) }
    }

    fn find(&self, hash: u64, key: &str) -> Option<u32> {
        self.table.find(hash, |slot| &*self.slots.at(*slot).key == key).copied()
    }

    /// A slot for `key`, which has none.
    fn occupy(&mut self, hash: u64, key: &str, scope: u16) -> u32 {
        let fresh = Slot { key: key.into(), history: History::Fresh, ends: i64::MIN, links: Links::NONE, scope };
        let slot = match self.free.pop() {
            Some(slot) => {
                *self.slots.at_mut(slot) = fresh;
                slot
            }
            None => self.slots.push(fresh, self.room),
        };
        let rehash = |slot: &u32| self.hasher.hash_one(&*self.slots.at(*slot).key);
        self.table.insert_unique(hash, slot, rehash);
        slot
    }

    /// Frees the slot of a key.
    fn vacate(&mut self, slot: u32) {
        let held = self.slots.at_mut(slot);
        let place = held.place();
        held.history = History::Fresh;
        let key = std::mem::take(&mut held.key);
        let hash = self.hasher.hash_one(&key);
        if let Ok(found) = self.table.find_entry(hash, |found| *found == slot) {
            found.remove();
        }
        self.leave(slot, place);
        self.free.push(slot);
    }

    fn leave(&mut self, slot: u32, place: Place) {
        let scope = &mut self.scopes[usize::from(self.slots.at(slot).scope)];
        match place {
            Place::Nowhere => {}
            Place::Counting => {
                scope.counting.remove(&mut self.slots, slot);
                scope.counted -= 1;
            }
            Place::Blocked(ends) => {
                scope.blocked.remove(&(ends, slot));
                self.blocked -= 1;
            }
        }
    }

    fn join(&mut self, slot: u32, place: Place) {
        let scope = &mut self.scopes[usize::from(self.slots.at(slot).scope)];
        match place {
            Place::Nowhere => {}
            Place::Counting => {
                scope.counting.push(&mut self.slots, slot);
                scope.counted += 1;
            }
            Place::Blocked(ends) => {
                scope.blocked.insert((ends, slot));
                self.blocked += 1;
            }
        }
    }
}

impl Scope {
    fn new(name: &str) -> Self {
        Self { name: name.into(), counting: Order::new(), counted: 0, blocked: BTreeSet::new() }
    }
}

impl Slot {
    fn place(&self) -> Place {
        match self.history {
            History::Fresh => Place::Nowhere,
            History::Counting(_) => Place::Counting,
            History::Blocked { .. } => Place::Blocked(self.ends),
        }
    }
}

impl Slots {
    fn at(&self, slot: u32) -> &Slot {
        &self.0[slot as usize]
    }

    fn at_mut(&mut self, slot: u32) -> &mut Slot {
        &mut self.0[slot as usize]
    }

    /// A new slot. The slab grows by a quarter and never beyond its limit; a vector would double.
    fn push(&mut self, slot: Slot, room: usize) -> u32 {
        let held = self.0.len();
        if held == self.0.capacity() {
            self.0.reserve_exact((held / 4).max(16).min(room.saturating_sub(held)).max(1));
        }
        self.0.push(slot);
        u32::try_from(held).unwrap_or(u32::MAX)
    }
}

impl Linked for Slots {
    fn links(&mut self, slot: u32) -> &mut Links {
        &mut self.at_mut(slot).links
    }
}
