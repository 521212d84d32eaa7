/// The candidate most like `word`, if any is close enough that a typing mistake is likely.
///
/// Close means at most a third of the longer word's letters inserted, deleted, replaced or swapped with a neighbour
/// (optimal string alignment distance), and at least one letter in common.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.chars().take(64).collect();
    candidates
        .into_iter()
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
}
