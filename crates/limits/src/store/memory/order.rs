//! A list that runs through the slots of a slab: moving to its end and leaving it cost the same however long it is.

/// The neighbours of a slot in an [`Order`]; the slot itself if there is none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Links {
    before: u32,
    after: u32,
}

impl Links {
    /// The value for a slot that is in no order.
    pub(super) const NONE: Self = Self { before: NOWHERE, after: NOWHERE };
}

const NOWHERE: u32 = u32::MAX;

/// The ends of the list.
#[derive(Debug)]
pub(super) struct Order {
    first: u32,
    last: u32,
}

/// Where the links of slots are kept.
pub(super) trait Linked {
    fn links(&mut self, slot: u32) -> &mut Links;
}

impl Order {
    pub(super) fn new() -> Self {
        Self { first: NOWHERE, last: NOWHERE }
    }

    /// The slot that has been in the order longest.
    pub(super) fn first(&self) -> Option<u32> {
        (self.first != NOWHERE).then_some(self.first)
    }

    /// The slot after `slot`, which is in the order.
    pub(super) fn after(slots: &mut impl Linked, slot: u32) -> Option<u32> {
        let after = slots.links(slot).after;
        (after != NOWHERE).then_some(after)
    }

    /// Adds `slot`, which is in no order, at the end.
    pub(super) fn push(&mut self, slots: &mut impl Linked, slot: u32) {
        *slots.links(slot) = Links { before: self.last, after: NOWHERE };
        match self.last {
            NOWHERE => self.first = slot,
            last => slots.links(last).after = slot,
        }
        self.last = slot;
    }

    /// Removes `slot`, which is in the order.
    pub(super) fn remove(&mut self, slots: &mut impl Linked, slot: u32) {
        let Links { before, after } = std::mem::replace(slots.links(slot), Links::NONE);
        match before {
            NOWHERE => self.first = after,
            before => slots.links(before).after = after,
        }
        match after {
            NOWHERE => self.last = before,
            after => slots.links(after).before = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Linked for Vec<Links> {
        fn links(&mut self, slot: u32) -> &mut Links {
            &mut self[slot as usize]
        }
    }

    fn listed(order: &Order, slots: &mut Vec<Links>) -> Vec<u32> {
        let mut all: Vec<u32> = order.first().into_iter().collect();
        while let Some(next) = all.last().and_then(|slot| Order::after(slots, *slot)) {
            all.push(next);
        }
        all
    }

    #[test]
    fn slots_leave_from_anywhere_and_come_back_at_the_end() {
        let (mut order, mut slots) = (Order::new(), vec![Links::NONE; 4]);
        for slot in 0..4 {
            order.push(&mut slots, slot);
        }
        assert_eq!(listed(&order, &mut slots), [0, 1, 2, 3]);
        for (moved, after) in [(1, [0, 2, 3, 1]), (0, [2, 3, 1, 0]), (0, [2, 3, 1, 0])] {
            order.remove(&mut slots, moved);
            order.push(&mut slots, moved);
            assert_eq!(listed(&order, &mut slots), after);
        }
        for slot in [3, 0, 2, 1] {
            order.remove(&mut slots, slot);
        }
        assert_eq!((order.first(), order.last), (None, NOWHERE));
    }
}
