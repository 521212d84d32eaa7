//! How many different filters the streams of one entity may have, and whose.
//!
//! Every write to the entity evaluates them, so their number is limited. Accounts and anonymous callers have separate
//! places, because a stranger may have many addresses. In each kind, half of the places are for callers who have none.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use gatewright_base::{Identity, Subject};
use gatewright_http::{ClientAddr, Counted};

/// Different filters of one holder on one entity.
const MAX_PER_HOLDER: usize = 8;
/// Different filters of all accounts on one entity.
const MAX_OF_ACCOUNTS: usize = 64;
/// Different filters of all anonymous callers on one entity.
const MAX_OF_NETWORKS: usize = 32;

/// Whose share a stream's filter counts against.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    Account(Subject),
    /// The anonymous callers of one network, by [`Counted::Filters`].
    Network(Option<Arc<str>>),
}

impl Holder {
    pub(crate) fn of(identity: &Identity, client: ClientAddr) -> Self {
        match identity.principal() {
            Some(principal) => Self::Account(principal.subject.clone()),
            None => Self::Network(Counted::Filters.share_key(client).map(Into::into)),
        }
    }

    /// The limit for all holders of this kind.
    fn most(&self) -> usize {
        match self {
            Self::Account(_) => MAX_OF_ACCOUNTS,
            Self::Network(_) => MAX_OF_NETWORKS,
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// Whether `holder` may have the filter in addition to those in `open`, each with its holders.
///
/// One filter of each holder is its first, the others are extra ones. At most half of the places are for filters that
/// are extra ones of some holder. So a number of holders have at most half of the places and one more for each of them,
/// also if they share filters, pass them on and leave.
pub(super) fn has_room<'a, F: Ord, H: Iterator<Item = &'a Holder>>(
    filter: &'a F,
    holder: &'a Holder,
    open: impl Iterator<Item = (&'a F, H)>,
) -> bool {
    let mut held: BTreeMap<&F, HashSet<&Holder>> = BTreeMap::from([(filter, HashSet::from([holder]))]);
    let mut own = 0;
    for (other, others) in open {
        for one in others.filter(|one| one.is_like(holder)) {
            if one == holder && other == filter {
                return true;
            }
            let is_new = held.entry(other).or_default().insert(one);
            own += usize::from(is_new && one == holder);
        }
    }
    let mut seen = HashSet::new();
    let is_extra = |holders: &&HashSet<&'a Holder>| {
        let firsts = holders.iter().filter(|one| seen.insert(**one)).count();
        firsts < holders.len()
    };
    let extras = held.values().filter(is_extra).count();
    let most = holder.most();
    own < MAX_PER_HOLDER && held.len() <= most && (own == 0 || extras <= most / 2)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use gatewright_base::UserId;

    use super::*;

    /// The holders of each filter.
    #[derive(Default)]
    struct Open(BTreeMap<usize, HashSet<Holder>>);

    impl Open {
        fn join(&mut self, filter: usize, holder: &Holder) -> bool {
            let may = has_room(&filter, holder, self.0.iter().map(|(filter, holders)| (filter, holders.iter())));
            if may {
                self.0.entry(filter).or_default().insert(holder.clone());
            }
            may
        }

        fn leave(&mut self, filter: usize, holder: &Holder) {
            let holders = self.0.get_mut(&filter).unwrap();
            assert!(holders.remove(holder));
            if holders.is_empty() {
                self.0.remove(&filter);
            }
        }

        /// How many filters that nobody else has the holder gets.
        fn fill(&mut self, holder: &Holder) -> usize {
            let first = self.0.keys().next_back().map_or(0, |last| last + 1);
            (first..first + 20).filter(|filter| self.join(*filter, holder)).count()
        }
    }

    fn account(number: usize) -> Holder {
        Holder::Account(Subject::User(UserId::parse(&format!("user{number}")).unwrap()))
    }

    fn network(number: usize) -> Holder {
        Holder::Network(Some(format!("2001:db8:{number}::/48").into()))
    }

    #[test]
    fn accounts_with_many_filters_leave_a_place_for_every_other_account() {
        let mut open = Open::default();
        let held: Vec<usize> = (0..16).map(|number| open.fill(&account(number))).collect();
        assert_eq!(held, [8, 8, 8, 8, 5, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        assert!(!open.join(1_000, &account(4)));
        for number in 16..32 {
            assert_eq!(open.fill(&account(number)), 1);
        }
        assert_eq!((open.0.len(), open.fill(&account(32))), (64, 0));
        assert_eq!(open.fill(&network(0)), 8);
    }

    #[test]
    fn networks_leave_a_place_for_other_networks_and_all_places_of_accounts() {
        let mut open = Open::default();
        let held: Vec<usize> = (0..5).map(|number| open.fill(&network(number))).collect();
        assert_eq!(held, [8, 8, 3, 1, 1]);
        for number in 5..100 {
            open.fill(&network(number));
        }
        assert_eq!(open.0.len(), 32);
        assert_eq!((open.fill(&account(0)), open.fill(&account(1))), (8, 8));
    }

    /// Otherwise nine accounts could take every place: one opens filters, and the others keep them open.
    #[test]
    fn filters_that_are_passed_on_count_for_those_who_have_them() {
        let mut open = Open::default();
        let opener = account(9);
        for filter in 0..200 {
            if open.join(filter, &opener) {
                open.join(filter, &account(filter / 8 % 9));
                open.leave(filter, &opener);
            }
        }
        assert_eq!(open.0.len(), 32 + 9);
        assert_eq!(open.fill(&account(10)), 1);
    }

    #[test]
    fn a_filter_that_many_have_takes_one_place() {
        let mut open = Open::default();
        for number in 0..100 {
            assert_eq!((0..20).filter(|filter| open.join(*filter, &account(number))).count(), 8);
        }
        assert_eq!((open.0.len(), open.fill(&account(100))), (8, 8));
        assert!(open.join(0, &account(0)), "it has this one already");
    }
}
