//! Area paths: `Project\Team\Component`.

/// Whether `area` equals `parent` or is below it. Case is ignored, as in the tracker. `/` counts as
/// `\`, which no name contains. An empty parent contains everything.
pub fn is_within_area(area: &str, parent: &str) -> bool {
    let mut area = names(area);
    names(parent).all(|name| area.next().is_some_and(|other| other == name))
}

fn names(path: &str) -> impl Iterator<Item = String> + '_ {
    path.split(['\\', '/']).map(|name| name.trim().to_lowercase()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_holds_itself_and_what_is_below_it() {
        for (area, parent, within) in [
            ("Shop\\Web", "Shop\\Web", true),
            ("Shop\\Web\\Login", "shop\\WEB", true),
            ("Shop\\Web\\Login", "Shop/Web/", true),
            ("Shop\\Web", "\\Shop", true),
            ("Größe\\A", "GRÖSSE", false),
            ("Größe\\A", "GRÖßE", true),
            ("Shop\\Website", "Shop\\Web", false),
            ("Shop", "Shop\\Web", false),
            ("Other\\Shop\\Web", "Shop\\Web", false),
            ("", "Shop", false),
            ("", "", true),
            ("Shop", "", true),
        ] {
            assert_eq!(is_within_area(area, parent), within, "{area} in {parent}");
        }
    }
}
