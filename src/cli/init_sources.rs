//! The sources that `heartbeat init` writes: one into `[source]`, several as `[[sources]]`.

use toml::Value;

use super::error::CommandError;
use super::init_checks::check_address;
use crate::fetch::filters::words;
use crate::fetch::github::{Filter, RepoScope};

const KINDS: [&str; 3] = ["ado", "github", "jira"];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NamedSource {
    pub(super) kind: Option<String>,
    pub(super) base_url: Option<String>,
    pub(super) project: Option<String>,
    /// The query or filter that the address of a page names.
    pub(super) saved_query: Option<String>,
    /// The search that the address of a page names, in the tracker's own language.
    pub(super) condition: Option<String>,
    /// The address as it was given, if it is one of a page.
    pub(super) page: Option<String>,
}

/// The credential variable and the default condition of a kind other than Azure DevOps.
fn start_of(kind: &str) -> Option<(&'static str, &'static str)> {
    match kind {
        "github" => Some(("GITHUB_TOKEN", "")),
        "jira" => Some(("JIRA_TOKEN", "statusCategory != Done")),
        _ => None,
    }
}

/// The variable for the credential of this kind of tracker.
pub(super) fn credential_of(kind: Option<&str>) -> &'static str {
    kind.and_then(start_of).map_or("AZURE_DEVOPS_PAT", |(variable, _)| variable)
}

/// The kind of tracker, if the address shows it; `None` means Azure DevOps.
pub(super) fn kind_of(address: &str) -> Option<&'static str> {
    let address = address.to_ascii_lowercase();
    let rest = address.split_once("://")?.1;
    let host = rest.split('/').next().unwrap_or_default();
    let github = host.contains("github") || host.ends_with(".ghe.com") || rest.contains("/api/v3");
    let jira =
        host.ends_with(".atlassian.net") || host == "api.atlassian.com" || rest.contains("jira");
    github.then_some("github").or_else(|| jira.then_some("jira"))
}

const GITHUB_API: &str = "https://api.github.com";

/// The project that a page of github.com belongs to; empty for its home page. `None` for the API's
/// own address and for other hosts, where the path does not show where the API is.
fn github_page(address: &str) -> Option<String> {
    let rest = address.split_once("://")?.1;
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let mut parts = rest.split('/').filter(|part| !part.is_empty());
    let is_api = match parts.next()?.to_ascii_lowercase().as_str() {
        "github.com" | "www.github.com" => false,
        "api.github.com" => true,
        _ => return None,
    };
    let parts: Vec<&str> = parts.collect();
    Some(match parts.as_slice() {
        [] if is_api => return None,
        [] => String::new(),
        ["orgs" | "users", owner, ..] | [owner] => (*owner).to_owned(),
        ["repos", owner, name, ..] if is_api => format!("{owner}/{name}"),
        [owner, name, ..] => format!("{owner}/{}", name.strip_suffix(".git").unwrap_or(name)),
    })
}

/// What the address of a page of Azure DevOps or Jira names: the base address, the project, and the
/// saved query. `None` if it is a base address.
fn tracker_page(address: &str, kind: Option<&str>) -> Option<(String, String, Option<String>)> {
    let (scheme, rest) = address.split_once("://")?;
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = path.split('#').next().unwrap_or_default();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let base = |count: usize| format!("{scheme}://{}", parts[..count].join("/"));
    let named = |text: &str| text.replace("%20", " ");
    match kind {
        None => {
            // …/PROJECT/_boards/…, …/PROJECT/_queries/query/ID
            let page = parts.iter().position(|part| part.starts_with('_'))?;
            let project = page.checked_sub(1).filter(|at| *at > 0)?;
            let saved = match parts.get(page..) {
                Some(["_queries", "query" | "query-edit", id, ..]) => Some((*id).to_owned()),
                _ => None,
            };
            Some((base(project), named(parts[project]), saved))
        }
        Some("jira") => {
            let at = |word: &str| parts.iter().position(|part| *part == word);
            let filter = query.split('&').find_map(|pair| pair.strip_prefix("filter="));
            let project = match (at("projects"), at("browse")) {
                (Some(place), _) => parts.get(place + 1).map(|key| (*key).to_owned()),
                (None, Some(place)) => parts
                    .get(place + 1)
                    .and_then(|key| key.rsplit_once('-'))
                    .map(|(key, _)| key.to_owned()),
                (None, None) => None,
            };
            if project.is_none() && filter.is_none() && !query.contains("jql=") {
                return None;
            }
            // On Cloud the pages are below /jira; a server's own path comes before them.
            let is_cloud = parts.first()?.ends_with(".atlassian.net");
            let words = ["jira", "projects", "browse", "issues", "software", "secure"];
            let end = parts
                .iter()
                .skip(1)
                .position(|part| words.contains(part) && (is_cloud || *part != "jira"));
            let base = base(end.map_or(1, |end| end + 1));
            Some((base, project.unwrap_or_default(), filter.map(str::to_owned)))
        }
        Some(_) => None,
    }
}

/// The search in the address of a page: `?jql=…` without its order, and of `?q=…` the terms that
/// choose issues.
fn search_of(address: &str, kind: Option<&str>) -> Option<String> {
    let address = reqwest::Url::parse(address).ok()?;
    let named = |key: &str| {
        let mut pairs = address.query_pairs();
        pairs.find(|(name, _)| name == key).map(|(_, value)| value.into_owned())
    };
    let search = match kind {
        Some("jira") => {
            let jql = named("jql")?;
            let order = jql.to_ascii_lowercase().find("order by").unwrap_or(jql.len());
            jql.get(..order)?.trim().to_owned()
        }
        Some("github") => {
            let search = named("q")?;
            let kinds = ["is:issue", "is:pr", "type:issue", "type:pr"];
            let chooses = |term: &String| Filter::parse(term).is_ok() && !kinds.contains(&&**term);
            words(&search).into_iter().filter(chooses).collect::<Vec<_>>().join(" ")
        }
        _ => return None,
    };
    Some(search).filter(|search| !search.is_empty())
}

/// The project that was given, if it agrees with the one that the address names.
fn one_project(given: String, named: &str) -> Result<String, String> {
    let is_owner = !named.contains('/');
    if named.is_empty() || given.eq_ignore_ascii_case(named) {
        Ok(given)
    } else if is_owner && !given.contains(['/', ',']) {
        Ok(format!("{named}/{given}"))
    } else if is_owner && given.split(',').all(|one| one.trim().starts_with(&format!("{named}/"))) {
        Ok(given)
    } else {
        Err(format!("the URL names {named}, but the project is {given}; leave out one of the two"))
    }
}

impl NamedSource {
    /// Parses an address with an optional kind, such as `jira:https://tracker.contoso.com`.
    pub(super) fn at(address: &str, project: Option<String>) -> Result<Self, String> {
        let named = address.split_once(':').filter(|(kind, _)| KINDS.contains(kind));
        let (kind, address) = match named {
            Some((kind, address)) => (Some(kind.to_owned()), address),
            None => (None, address),
        };
        check_address(address)?;
        Ok(Self { kind, base_url: Some(address.to_owned()), project, ..Self::default() })
    }

    /// As given, or as shown by the address.
    pub(super) fn kind(&self) -> Option<&str> {
        self.kind.as_deref().or_else(|| self.base_url.as_deref().and_then(kind_of))
    }

    /// As [`Self::at`] parses it.
    pub(super) fn address(&self) -> String {
        let address = self.base_url.clone().unwrap_or_default();
        match &self.kind {
            Some(kind) => format!("{kind}:{address}"),
            None => address,
        }
    }

    /// Whether the project cannot be left to be set later: GitHub has no other way to say what to
    /// watch.
    pub(super) fn needs_project(&self) -> bool {
        self.kind() == Some("github")
    }

    pub(super) fn check_project(&self, project: &str) -> Result<(), String> {
        match self.needs_project() {
            true => RepoScope::parse(project).map(drop).map_err(|error| error.to_string()),
            false => Ok(()),
        }
    }

    /// Replaces the address of a page of github.com by that of the API and the project that the
    /// page belongs to, and says so.
    pub(super) fn resolve(self) -> Result<(Self, Option<String>), String> {
        let address = self.base_url.clone().unwrap_or_default();
        let condition = search_of(&address, self.kind());
        let search = condition.as_ref().map(|text| format!(", where {text}")).unwrap_or_default();
        if let Some((base, named, saved_query)) = tracker_page(&address, self.kind()) {
            let named = Some(named).filter(|named| !named.is_empty());
            let project = self.project.or(named);
            let of = project.as_ref().map(|name| format!(", project {name}")).unwrap_or_default();
            let query = saved_query.as_ref().map(|id| format!(", saved query {id}"));
            let note = format!(
                "{address} is the address of a page; using {base}{of}{}{search}",
                query.unwrap_or_default()
            );
            let (base_url, page) = (Some(base), Some(address));
            let found = Self { base_url, project, saved_query, condition, page, ..self };
            return Ok((found, Some(note)));
        }
        let page = Some(&address).filter(|_| self.kind() == Some("github"));
        let Some(named) = page.and_then(|address| github_page(address)) else {
            return Ok((self, None));
        };
        let project = match self.project {
            None => Some(named).filter(|named| !named.is_empty()),
            Some(given) => Some(one_project(given, &named)?),
        };
        let project_text = project.as_ref().map(|project| format!(" and project {project}"));
        let note = format!(
            "{address} is a web page, not the API; using {GITHUB_API}{}{search}",
            project_text.unwrap_or_default()
        );
        let (base_url, page) = (Some(GITHUB_API.to_owned()), Some(address));
        Ok((Self { base_url, project, condition, page, ..self }, Some(note)))
    }

    /// The question for its project.
    pub(super) fn question(&self) -> &'static str {
        match self.kind() {
            Some("github") => "Repository to watch, as owner/repository",
            Some("jira") => "Key of the project to watch, such as SHOP",
            _ => "Project to watch",
        }
    }

    /// Its keys and values.
    pub(super) fn keys(&self) -> Vec<(&'static str, String)> {
        let start = self.kind().and_then(start_of);
        let given = [
            ("kind", self.kind().map(str::to_owned)),
            ("token_env", start.map(|(variable, _)| variable.to_owned())),
            (
                "where",
                match &self.saved_query {
                    // A run uses one query.
                    Some(_) => Some(String::new()),
                    None => {
                        let usual = start.map(|(_, condition)| condition.to_owned());
                        self.condition.clone().or(usual)
                    }
                },
            ),
            ("saved_query", self.saved_query.clone()),
            ("base_url", self.base_url.clone()),
            ("project", self.project.clone()),
        ];
        given.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }
}

/// The values of the repeatable flag `--also URL PROJECT`.
pub(super) fn also(values: &[String]) -> Result<Vec<NamedSource>, CommandError> {
    let source = |pair: &[String]| {
        let [address, project] = pair else {
            return Err(CommandError::Usage("--also needs a URL and a project".to_owned()));
        };
        NamedSource::at(address, Some(project.clone()))
            .map_err(|why| CommandError::Usage(format!("--also {address:?}: {why}")))
    };
    values.chunks(2).map(source).collect()
}

/// The entries of several sources, with unique names.
pub(super) fn entries(sources: &[NamedSource]) -> String {
    let mut text = String::from(
        "\n# The sources. A key that an entry does not set has the value of [source] above. Items are\n\
         # stored under the source's name: keep the name if an address changes.\n",
    );
    for (source, name) in sources.iter().zip(names(sources)) {
        text.push_str(&format!("\n[[sources]]\nname = {}\n", Value::from(name)));
        for (key, value) in source.keys() {
            text.push_str(&format!("{key} = {}\n", Value::from(value)));
        }
    }
    text
}

/// A short unique name for each source, derived from its project.
fn names(sources: &[NamedSource]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for source in sources {
        let project = source.project.as_deref().unwrap_or_default();
        let project = project.split(',').next().unwrap_or_default();
        let last = project.rsplit('/').next().unwrap_or_default();
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let base: String = last.chars().map(plain).collect();
        let base = match base.trim_matches('-') {
            "" => source.kind().unwrap_or("ado"),
            base => base,
        };
        let numbered = (2..).map(|number| format!("{base}-{number}"));
        let mut tried = std::iter::once(base.to_owned()).chain(numbered);
        names.extend(tried.find(|name| !names.contains(name)));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(address: &str, project: &str) -> NamedSource {
        NamedSource::at(address, Some(project.to_owned())).unwrap()
    }

    #[test]
    fn several_sources_of_several_kinds_make_entries_that_load() {
        let sources = [
            source("https://dev.azure.com/contoso", "Web Shop"),
            source("https://dev.azure.com/fabrikam", "web shop"),
            source("https://api.github.com", "contoso/shop,contoso/cart"),
            source("jira:https://tracker.contoso.com", "SHOP"),
            source("https://dev.azure.com/contoso", "Größe \"x\"\n\u{1}"),
            source("https://dev.azure.com/contoso", "北京"),
        ];
        let text = format!("{}{}", crate::config::DEFAULT_TOML, entries(&sources));
        let parsed: toml::Table = toml::from_str(&text).unwrap();
        let listed = parsed["sources"].as_array().unwrap();
        let value = |n: usize, key: &str| listed[n].get(key).and_then(Value::as_str);
        let names: Vec<_> = (0..6).map(|n| value(n, "name").unwrap()).collect();
        assert_eq!(names, ["web-shop", "web-shop-2", "shop", "shop-2", "gr--e--x", "ado"]);
        assert_eq!((value(0, "kind"), value(0, "token_env")), (None, None));
        assert_eq!((value(2, "kind"), value(2, "where")), (Some("github"), Some("")));
        assert_eq!((value(3, "kind"), value(3, "token_env")), (Some("jira"), Some("JIRA_TOKEN")));
        assert_eq!(value(3, "base_url"), Some("https://tracker.contoso.com"));
        assert_eq!(value(4, "project"), Some("Größe \"x\"\n\u{1}"));
    }

    /// Page, base address, project, saved query.
    const PAGES: &str = "\
https://dev.azure.com/contoso/Parcel/_boards/board/t/Web/Stories | https://dev.azure.com/contoso | Parcel |
https://dev.azure.com/contoso/Web%20Shop/_queries/query/1b2c/ | https://dev.azure.com/contoso | Web Shop | 1b2c
https://contoso.visualstudio.com/Parcel/_workitems/edit/12 | https://contoso.visualstudio.com | Parcel |
https://tfs.contoso.test/tfs/Default/Parcel/_backlogs | https://tfs.contoso.test/tfs/Default | Parcel |
https://contoso.atlassian.net/jira/software/c/projects/SHOP/boards/7 | https://contoso.atlassian.net | SHOP |
https://contoso.atlassian.net/browse/SHOP-12 | https://contoso.atlassian.net | SHOP |
https://contoso.atlassian.net/issues/?filter=10001 | https://contoso.atlassian.net | | 10001
https://x.contoso.test/jira/projects/SHOP/issues | https://x.contoso.test/jira | SHOP |";

    #[test]
    fn the_address_of_a_board_or_a_query_is_understood() {
        for row in PAGES.lines() {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let [page, base, project, saved] = cells[..] else { panic!("{row}") };
            let (source, note) = NamedSource::at(page, None).unwrap().resolve().unwrap();
            let given = [source.base_url, source.project, source.saved_query];
            assert_eq!(given.map(Option::unwrap_or_default), [base, project, saved], "{page}");
            assert!(note.unwrap().contains("is the address of a page"));
        }
        for base in ["https://dev.azure.com/contoso", "https://x/tfs/Default"] {
            let (source, note) = NamedSource::at(base, None).unwrap().resolve().unwrap();
            assert_eq!((source.base_url.as_deref(), note), (Some(base), None));
        }
        for (page, condition) in [
            (
                "https://github.com/contoso/shop/issues?q=is%3Aissue+is%3Aopen+label%3A%22good+one%22+sort%3Aupdated-desc",
                "is:open label:\"good one\"",
            ),
            (
                "https://contoso.atlassian.net/issues/?jql=project%20%3D%20SHOP%20AND%20priority%20%3D%20High%20ORDER%20BY%20created",
                "project = SHOP AND priority = High",
            ),
        ] {
            let (source, note) = NamedSource::at(page, None).unwrap().resolve().unwrap();
            assert!(source.keys().contains(&("where", condition.to_owned())), "{source:?}");
            assert!(note.unwrap().contains(condition));
        }
        let query = source("https://dev.azure.com/contoso/Parcel/_queries/query/1b2c", "Parcel");
        let keys = query.resolve().unwrap().0.keys();
        assert!(keys.contains(&("where", String::new())), "one query: {keys:?}");
    }

    #[test]
    fn addresses_are_held_to_the_same_rules() {
        for wrong in ["contoso", "svn:https://x", "jira:contoso", ""] {
            assert!(NamedSource::at(wrong, None).is_err(), "{wrong}");
        }
        let odd = also(&["https://x".to_owned()]).unwrap_err().to_string();
        assert!(odd.contains("a URL and a project"), "{odd}");
    }
}
