/// The most values of a header that are read.
const MOST: usize = 32;

/// The values that a header such as `Accept-Language` or `Accept-Encoding` lists, each with its q-value in thousandths (RFC 9110,
/// section 12.4.2). Zero means "not this one". A value with an invalid q-value is left out, and so is each after the first 32.
pub fn preferences(header: &str) -> impl Iterator<Item = (&str, u16)> {
    header.split(',').take(MOST).filter_map(preference)
}

fn preference(text: &str) -> Option<(&str, u16)> {
    let mut parts = text.split(';').map(str::trim);
    let value = parts.next().filter(|value| !value.is_empty())?;
    let quality = match parts.next() {
        None => 1.0,
        Some(parameter) => parameter.strip_prefix(['q', 'Q'])?.trim_start().strip_prefix('=')?.trim().parse().ok()?,
    };
    let quality: f32 = quality;
    (0.0..=1.0).contains(&quality).then(|| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1000")]
        let thousandths = (quality * 1000.0).round() as u16;
        (value, thousandths)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_q_values_and_invalid_ones_are_left_out() {
        let read: Vec<_> =
            preferences("gzip, br;q=0.5, x ; Q = 0.001 ,a;q=0,b;q=2,c;q=x,d;level=1,;q=1,*;q=0.25").collect();
        assert_eq!(read, [("gzip", 1000), ("br", 500), ("x", 1), ("a", 0), ("*", 250)]);
        assert_eq!(preferences(&"a,".repeat(100)).count(), MOST);
        assert_eq!(preferences("").count(), 0);
    }
}
