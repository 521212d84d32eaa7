/// The minimum number of letters of a word that can be the start of another one.
const SHORTEST_START: usize = 4;

/// The candidate most like `word`, if any is close enough that a mistake is likely.
///
/// Close means at most a third of the longer word's letters inserted, deleted, replaced or swapped with a neighbour
/// (optimal string alignment distance), and at least one letter in common. If no candidate is close, it is the shortest
/// that `word` is the start of or the plural of.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    closest(word, &candidates).or_else(|| {
        let starts = |candidate: &&&str| word.len() >= SHORTEST_START && candidate.starts_with(word);
        let singular = word.strip_suffix("ies").map(|stem| format!("{stem}y"));
        let by_start = candidates.iter().filter(starts).min_by_key(|candidate| candidate.len());
        by_start.or_else(|| candidates.iter().find(|candidate| singular.as_deref() == Some(**candidate))).copied()
    })
}

fn closest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let word: Vec<char> = word.chars().take(64).collect();
    candidates
        .iter()
        .copied()
        .filter_map(|candidate| {
            let letters: Vec<char> = candidate.chars().collect();
            let longer = word.len().max(letters.len());
            let distance = distance(&word, &letters);
            (distance < longer && distance <= (longer / 3).max(1)).then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_mistake_finds_its_word() {
        let names = ["status", "title", "created_at", "jwt_secret"];
        for (typed, meant) in
            [("stauts", "status"), ("titel", "title"), ("create_at", "created_at"), ("jwt_secrets", "jwt_secret")]
        {
            assert_eq!(nearest(typed, names), Some(meant));
        }
        assert_eq!(nearest("zebra", names), None);
        assert_eq!(nearest("", names), None);
    }

    #[test]
    fn the_start_of_a_word_and_a_plural_find_it() {
        let names = ["session_ttl_seconds", "session_ttl_seconds_more", "entity", "id"];
        assert_eq!(nearest("session_ttl", names), Some("session_ttl_seconds"));
        assert_eq!(nearest("entities", names), Some("entity"));
        assert_eq!(nearest("ses", names), None, "too short");
    }
}
