use std::collections::HashMap;
use std::sync::Arc;

use gatewright_base::TokenId;
use parking_lot::Mutex;

/// Callers of one token that wait at the same time in this process.
const OF_A_TOKEN: usize = 32;
/// Callers that wait at the same time in this process.
const OF_ALL: usize = 1_000;

/// The limit of waiting callers is reached; retry later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many callers wait for events")]
pub struct TooManyWaiting;

/// The callers that wait, by token.
#[derive(Default)]
pub(super) struct Waiting(Arc<Mutex<Seats>>);

#[derive(Default)]
struct Seats {
    all: usize,
    tokens: HashMap<TokenId, usize>,
}

/// One caller that waits, until it is dropped.
pub(super) struct Seat {
    seats: Arc<Mutex<Seats>>,
    token: TokenId,
}

impl Waiting {
    pub(super) fn enter(&self, token: &TokenId) -> Result<Seat, TooManyWaiting> {
        let mut seats = self.0.lock();
        let of_token = seats.tokens.get(token).copied().unwrap_or(0);
        if seats.all >= OF_ALL || of_token >= OF_A_TOKEN {
            return Err(TooManyWaiting);
        }
        seats.all += 1;
        seats.tokens.insert(token.clone(), of_token + 1);
        Ok(Seat { seats: self.0.clone(), token: token.clone() })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = self.seats.lock();
        seats.all -= 1;
        if let Some(of_token) = seats.tokens.get_mut(&self.token) {
            *of_token -= 1;
            if *of_token == 0 {
                seats.tokens.remove(&self.token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_token_cannot_take_all_seats_and_a_seat_is_given_back() {
        let waiting = Waiting::default();
        let token = |name: &str| TokenId::parse(name).unwrap();
        let mut seats: Vec<_> = (0..OF_A_TOKEN).map(|_| waiting.enter(&token("a")).unwrap()).collect();
        assert!(waiting.enter(&token("a")).is_err());
        let other = waiting.enter(&token("b")).unwrap();
        seats.pop();
        seats.push(waiting.enter(&token("a")).unwrap());
        let many: Vec<_> = (0..OF_ALL).map_while(|n| waiting.enter(&token(&format!("t{n}"))).ok()).collect();
        assert_eq!(many.len() + seats.len() + 1, OF_ALL);
        drop((seats, other, many));
        let left = waiting.0.lock();
        assert_eq!((left.all, left.tokens.len()), (0, 0));
    }
}
