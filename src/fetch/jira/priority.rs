//! Ranks priorities: names are free, so the order of the server's list counts (pure).

use super::wire::JiraNamed;

/// Ranks of Jira's default names, most urgent first.
const USUAL: [&[&str]; 5] = [
    &["blocker", "highest", "critical", "urgent", "p1"],
    &["high", "major", "p2"],
    &["medium", "normal", "p3"],
    &["low", "minor", "p4"],
    &["lowest", "trivial", "p5"],
];

#[derive(Debug, Default)]
pub struct Priorities {
    /// Configured names, rank 1 first; `|` separates several of one rank.
    configured: Vec<Vec<String>>,
    /// In the server's order, most urgent first.
    listed: Vec<String>,
}

impl Priorities {
    pub fn new(configured: &[String], listed: Vec<JiraNamed>) -> Self {
        let rank = |text: &String| text.split('|').map(|name| name.trim().to_lowercase()).collect();
        let listed = listed.into_iter().filter_map(|named| named.name).map(|n| n.to_lowercase());
        Self { configured: configured.iter().map(rank).collect(), listed: listed.collect() }
    }

    /// The rank of a priority, 1 for the most urgent; `None` for an unknown name.
    pub fn rank(&self, name: &str) -> Option<i64> {
        let name = name.trim().to_lowercase();
        let configured = self.configured.iter().position(|names| names.contains(&name));
        let listed = || self.listed.iter().position(|listed| *listed == name);
        let usual = || USUAL.iter().position(|names| names.contains(&name.as_str()));
        let place = configured.or_else(listed).or_else(usual)?;
        i64::try_from(place + 1).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_goes_before_the_server_and_the_server_before_habit() {
        let named = |name: &str| JiraNamed { name: Some(name.into()), ..JiraNamed::default() };
        let listed = ["Sofort", "High", "Egal"].map(named).to_vec();
        let configured = ["Not am Mann|Fire".to_owned(), "Egal".to_owned()];
        let priorities = Priorities::new(&configured, listed);
        assert_eq!(priorities.rank("fire"), Some(1));
        assert_eq!(priorities.rank("Egal"), Some(2));
        assert_eq!(priorities.rank("sofort"), Some(1));
        assert_eq!(priorities.rank("High"), Some(2));
        assert_eq!(priorities.rank("Lowest"), Some(5));
        assert_eq!(priorities.rank("Whatever"), None);
    }
}
