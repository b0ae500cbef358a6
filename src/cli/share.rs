//! `heartbeat share`: one finding as a file, or as a link that opens only this finding.

use std::path::PathBuf;

use serde::Serialize;

use super::error::CommandError;
use super::exit::Code;
use super::{Context, show};
use crate::app::after_run;
use crate::app::web::page_address;
use crate::private;
use crate::report::code_links::CodeLinks;
use crate::report::digest::{Report, Scope};
use crate::report::moment::minute;
use crate::settings::ReportFormat;
use crate::web::{address, share};

#[derive(Debug, Clone, clap::Args)]
pub struct ShareArgs {
    /// The item as people name it: 4106, #4106, PARCEL-4, contoso/web#12, or its address
    #[arg(required_unless_present = "revoke")]
    item: Option<String>,
    /// Print a link that opens only this finding; for people who can reach the dashboard
    #[arg(long)]
    link: bool,
    /// How many days the link opens
    #[arg(long, value_name = "N", default_value_t = share::DAYS, requires = "link", value_parser = clap::value_parser!(i64).range(1..=366))]
    days: i64,
    /// The file to write [default: heartbeat-ITEM.html in the current folder]
    #[arg(long, value_name = "FILE", conflicts_with = "link")]
    out: Option<PathBuf>,
    /// Make every link that was ever printed stop working
    #[arg(long, conflicts_with_all = ["item", "link", "out"])]
    revoke: bool,
}

#[derive(Debug, Serialize)]
struct SharedFinding {
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<jiff::Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
}

impl Context {
    pub(super) async fn share(&self, args: &ShareArgs) -> Result<Code, CommandError> {
        let (store, config) = self.needed_state()?;
        self.learn_names(&store).await?;
        let Some(item) = &args.item else {
            let unwritable = CommandError::io("cannot replace the secret of shared links");
            share::secret_file(store.folder()).rotate().map_err(unwritable)?;
            super::write_out("No shared link works any more.\n")?;
            return Ok(Code::Done);
        };
        let key = show::find_key(&store, &config, item).await?;
        let name = self.names.get().map_or_else(|| key.to_string(), |names| names.name(&key));
        let newest = store.findings().of_item(key).await?.into_iter().next();
        let session = newest.map(|row| row.session).ok_or_else(|| {
            CommandError::NotFound(format!(
                "{name} has no finding to share; `heartbeat why {item}` says why"
            ))
        })?;
        if args.link {
            let served = address::published(store.folder()).ok_or_else(|| {
                CommandError::NotFound(
                    "no dashboard is running for this state, so there is nothing to link to; \
                     without --link a file is written"
                        .to_owned(),
                )
            })?;
            let made = share::link(store.folder(), session, args.days, self.clock.now());
            let (path, until) =
                made.map_err(CommandError::io("cannot write the secret of shared links"))?;
            let link = format!("{}{path}", page_address(served).trim_end_matches('/'));
            let shared = SharedFinding { link: Some(link), until: Some(until), file: None };
            self.print(&shared, |shared| {
                format!(
                    "{}\nopens only the finding on {name}, until {}; `heartbeat share --revoke` \
                     ends all links\n",
                    shared.link.as_deref().unwrap_or_default(),
                    minute(until)
                )
            })?;
            return Ok(Code::Done);
        }
        let scope = Scope::Finding { session };
        let report = Report::gather(&store, scope, &config.projects(), self.clock.now()).await?;
        let secrets = self.secrets(&config).await;
        let report = report.linked(CodeLinks::configured(&config)).without(&secrets);
        let page = after_run::render(&report, ReportFormat::Html)?;
        let plain: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let usual = || PathBuf::from(format!("heartbeat-{}.html", plain.trim_matches('-')));
        let file = args.out.clone().unwrap_or_else(usual);
        let what = format!("cannot write {}", file.display());
        private::replace(&file, page.as_bytes()).map_err(CommandError::io(what))?;
        let shared = SharedFinding { link: None, until: None, file: Some(file) };
        self.print(&shared, |shared| {
            let file = shared.file.as_deref().map(|file| file.display().to_string());
            format!("wrote the finding on {name} to {}\n", file.unwrap_or_default())
        })?;
        Ok(Code::Done)
    }
}
