//! The name that people use for an item, from its address: `PARCEL-4`, `contoso/web#12`.

/// The tracker's own key, if the address has one. In Azure DevOps it is `#` and the number, which
/// the item's key has already.
pub fn name_in(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let path = rest.split(['?', '#']).next()?.trim_end_matches('/');
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    match parts.as_slice() {
        [.., "browse", key] if is_jira_key(key) => Some((*key).to_owned()),
        [.., owner, repository, "issues" | "pull", number]
            if is_word(owner) && is_word(repository) && is_number(number) =>
        {
            Some(format!("{owner}/{repository}#{number}"))
        }
        _ => None,
    }
}

fn is_jira_key(text: &str) -> bool {
    let Some((project, number)) = text.rsplit_once('-') else { return false };
    project.starts_with(|c: char| c.is_ascii_uppercase())
        && project.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
        && is_number(number)
}

fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() < 19 && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_jira_and_github_have_a_name_and_others_do_not() {
        for (url, name) in [
            ("https://contoso.atlassian.net/browse/PARCEL-4", Some("PARCEL-4")),
            ("http://127.0.0.1:9/jira/browse/A_1-7?focused=1", Some("A_1-7")),
            ("https://github.com/contoso/web.js/issues/12", Some("contoso/web.js#12")),
            ("https://github.com/contoso/web/pull/3#discussion", Some("contoso/web#3")),
            ("https://dev.azure.com/contoso/_workitems/edit/42", None),
            ("https://x/browse/<script>-4", None),
            ("https://x/a b/c/issues/4", None),
            ("javascript:alert(1)", None),
            ("", None),
        ] {
            assert_eq!(name_in(url).as_deref(), name, "{url}");
        }
    }
}
