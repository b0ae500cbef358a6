//! Moments as people read them: the time to the second, and how far away it is. Pure.

use jiff::Timestamp;

/// `2026-11-16 09:15:53Z, 12 min ago`
pub fn moment(then: Timestamp, now: Timestamp) -> String {
    format!("{}, {}", then.strftime("%F %TZ"), distance(then, now))
}

/// `12 min ago`, `in 3 h`, `now`.
fn distance(then: Timestamp, now: Timestamp) -> String {
    let seconds = then.duration_since(now).as_secs();
    let far = match seconds.unsigned_abs() {
        0 => return "now".into(),
        s @ 1..120 => format!("{s} s"),
        s @ 120..7_200 => format!("{} min", s / 60),
        s @ 7_200..172_800 => format!("{} h", s / 3_600),
        s => format!("{} days", s / 86_400),
    };
    if seconds < 0 { format!("{far} ago") } else { format!("in {far}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_and_far_on_both_sides() {
        let now: Timestamp = "2026-11-16T09:00:00Z".parse().unwrap();
        for (then, said) in [
            ("2026-11-16T09:00:00.9Z", "2026-11-16 09:00:00Z, now"),
            ("2026-11-16T08:58:30.145Z", "2026-11-16 08:58:30Z, 89 s ago"),
            ("2026-11-16T09:30:00Z", "2026-11-16 09:30:00Z, in 30 min"),
            ("2026-11-15T10:00:00Z", "2026-11-15 10:00:00Z, 23 h ago"),
            ("2026-12-16T09:00:00Z", "2026-12-16 09:00:00Z, in 30 days"),
        ] {
            assert_eq!(moment(then.parse().unwrap(), now), said);
        }
    }
}
