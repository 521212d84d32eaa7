//! Passwords that continue one pattern: a guesser tries them right after the most common ones, and no list has all of them.

/// The most characters of a password that is one short piece, repeated.
const LONGEST_PIECE: usize = 6;
/// The fewest characters of a run. A password is a pattern if it consists of runs.
const SHORTEST_RUN: usize = 4;

/// Characters in an order that people continue without thinking: alphabet, digits, rows and columns of keyboards.
const ORDERS: [&str; 9] = [
    "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz",
    "0123456789012345678901234567890123456789",
    "qwertyuiop[]",
    "asdfghjkl;'",
    "zxcvbnm,./",
    "qwertzuiop",
    "yxcvbnm,.-",
    "azertyuiopqsdfghjklmwxcvbn",
    "1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik,9ol.0p;/",
];

/// Whether a password in lower case is a short piece that is repeated, or consists of runs: of one character, or of characters in
/// one of the [`ORDERS`], forward or backward.
pub(super) fn is_pattern(password: &str) -> bool {
    let characters: Vec<char> = password.chars().collect();
    repeats(&characters) || consists_of_runs(&characters)
}

/// The last repetition may be cut off: `abcabcab`.
fn repeats(characters: &[char]) -> bool {
    let repeats_after =
        |length: usize| characters.iter().zip(characters.iter().skip(length)).all(|(one, next)| one == next);
    (1..=LONGEST_PIECE).any(|length| characters.len() >= 2 * length && repeats_after(length))
}

fn consists_of_runs(mut rest: &[char]) -> bool {
    while !rest.is_empty() {
        let length = run(rest);
        if length < SHORTEST_RUN {
            return false;
        }
        rest = &rest[length..];
    }
    true
}

/// The characters of the longest run at the beginning.
fn run(characters: &[char]) -> usize {
    let of_one = characters.iter().take_while(|c| **c == characters[0]).count();
    let in_order = |order: &str| {
        let forward: Vec<char> = order.chars().collect();
        let backward: Vec<char> = order.chars().rev().collect();
        let along = |order: &[char]| {
            let from =
                |start: usize| order[start..].iter().zip(characters).take_while(|(one, next)| one == next).count();
            (0..order.len()).map(from).max().unwrap_or(0)
        };
        along(&forward).max(along(&backward))
    };
    ORDERS.into_iter().map(in_order).max().unwrap_or(0).max(of_one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_and_runs_are_patterns() {
        for pattern in [
            "00000000",
            "aaaaaaaa",
            "éééééééé",
            "        ",
            "abababab",
            "abcabcabc",
            "abcabcab",
            "20242024",
            "adminadmin",
            "qwertyqwerty",
            "ax7!ax7!",
            "12345678",
            "87654321",
            "1234567890",
            "0987654321",
            "67890123",
            "abcdefgh",
            "zyxwvuts",
            "wxyzabcd",
            "abcd1234",
            "1234abcd",
            "aaaa1111",
            "aaaabbbb",
            "qwertyui",
            "poiuytre",
            "asdfghjkl",
            "qwertzuiop",
            "azertyuiop",
            "qwer1234",
            "asdfqwer",
            "1qaz2wsx",
        ] {
            assert!(is_pattern(pattern), "{pattern}");
        }
        for other in [
            "correct horse battery",
            "password1",
            "abcdefgx",
            "xabcdefgh",
            "aaaaaaab",
            "abc123xyz",
            "ax7!ax7?",
            "tangerine",
            "1357924680",
            "anna2024",
        ] {
            assert!(!is_pattern(other), "{other}");
        }
    }
}
