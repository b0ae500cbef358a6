//! `heartbeat dashboard`: signs a browser in with a token in the address, as Jupyter does.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::Path;

use secrecy::SecretString;
use serde::Serialize;

use super::Context;
use super::error::CommandError;
use super::exit::Code;
use crate::app;
use crate::app::web::{page_address, sign_in_address};
use crate::private;
use crate::settings::Environment;
use crate::store::prepare_folder;
use crate::web::address;
use crate::web::token::TokenFile;

#[derive(Debug, Clone, Copy, clap::Args)]
pub struct DashboardArgs {
    /// Replace the token first; this signs out every browser
    #[arg(long)]
    rotate: bool,
    /// For people who only read: an address whose token can change nothing
    #[arg(long)]
    reader: bool,
    /// Print the address without opening a browser
    #[arg(long)]
    no_open: bool,
}

#[derive(Debug, Serialize)]
struct SignIn {
    address: String,
    /// The address with the token, which is enough to sign in.
    sign_in: String,
    token_file: std::path::PathBuf,
}

impl Context {
    pub(super) fn dashboard(&self, args: DashboardArgs) -> Result<Code, CommandError> {
        let (config, _) = self.load_for_reading()?;
        let state = app::state_folder(&config, &self.environment)?;
        prepare_folder(&state)?;
        let file = match args.reader {
            true => TokenFile::of_readers(&state),
            false => TokenFile::in_state(&state),
        };
        let token = if args.rotate { file.rotate() } else { file.read_or_create() };
        let what = format!("cannot write the dashboard's token {}", file.path().display());
        let token = token.map_err(CommandError::io(what))?;
        let served = address::published(&state);
        if args.rotate && served.is_none() {
            super::write_out("Replaced the token. No dashboard is running for this state.\n")?;
            return Ok(Code::Done);
        }
        let address = served.ok_or_else(|| not_running(&config.http.listen, &state))?;
        let sign_in = SignIn {
            address: page_address(address),
            sign_in: sign_in_address(address, &token),
            token_file: file.path().to_path_buf(),
        };
        self.print(&sign_in, |sign_in| format!("{}\n", sign_in.sign_in))?;
        let is_watched = std::io::stdout().is_terminal() && !self.global.json;
        if is_watched && !args.no_open && !args.reader {
            open_in_browser(&state, address, &token, &self.environment);
        }
        Ok(Code::Done)
    }
}

fn not_running(listen: &str, state: &Path) -> CommandError {
    let state = state.display();
    CommandError::NotFound(if listen.is_empty() {
        format!(
            "no dashboard is running for the state {state}: it is turned off. Set [http] listen, \
             for example to \"127.0.0.1:7979\", and start heartbeat"
        )
    } else {
        format!(
            "no dashboard is running for the state {state}. Start heartbeat, or name the state of \
             a running one with --state-dir or --config"
        )
    })
}

/// Opens the desktop's browser, if there is one. A command line is readable by every user, so the
/// token must not be on it: the browser gets a private file that redirects to the address.
fn open_in_browser(
    state: &Path,
    address: SocketAddr,
    token: &SecretString,
    environment: &Environment,
) {
    let Some(opener) = opener(environment) else { return };
    let page = state.join("dashboard.html");
    let target = sign_in_address(address, token);
    let content = format!(
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
         <meta http-equiv=\"refresh\" content=\"0;url={target}\"><title>heartbeat</title>\
         <a href=\"{target}\">Open the dashboard</a>\n"
    );
    let opened = private::replace(&page, content.as_bytes())
        .and_then(|()| crate::exec::start_detached(opener, &page));
    if let Err(error) = opened {
        tracing::info!(%error, opener, "cannot open a browser");
    }
}

/// The program that opens a file on this desktop.
fn opener(environment: &Environment) -> Option<&'static str> {
    if cfg!(target_os = "macos") {
        return Some("open");
    }
    let has_desktop = ["WAYLAND_DISPLAY", "DISPLAY"]
        .iter()
        .any(|name| environment.raw(name).is_some_and(|value| !value.is_empty()));
    has_desktop.then_some("xdg-open")
}
