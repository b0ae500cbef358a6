//! Confines the process that is about to become the agent. The restrictions apply to everything it
//! starts and cannot be lifted.

use std::io;
use std::path::Path;

use super::filter;
use super::verify::Witness;
use crate::confinement::{Confinement, Strength};
use crate::process::system;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath,
    PathFd, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
};

/// Landlock with files, TCP ports and the scopes of signals and abstract sockets.
const VERSION: ABI = ABI::V6;

/// Why a process is not confined.
pub enum Unconfined {
    /// A step failed.
    Refused(io::Error),
    /// Every step succeeded, and yet something is open.
    NotInForce,
}

/// Applies to the calling thread, which must be the only one.
pub fn confine(allowed: &Confinement) -> Result<(), Unconfined> {
    let witness = Witness::new();
    build(allowed).map_err(Unconfined::Refused)?;
    let checked = witness.check(allowed, Strength::of_this_machine());
    checked.map_err(|_| Unconfined::NotInForce)
}

fn build(allowed: &Confinement) -> io::Result<()> {
    restrict(allowed)?;
    // With no-new-privileges set above, root does not regain them by executing a program.
    system::drop_capabilities(allowed.makes_own_sandbox);
    match filter::programs(allowed) {
        Ok(programs) => programs
            .iter()
            .try_for_each(|program| seccompiler::apply_filter(program).map_err(io::Error::other)),
        // No filter compiler for this architecture: reported as partial.
        Err(_) if !Strength::of_this_machine().has_filter() => Ok(()),
        Err(error) => Err(io::Error::other(error)),
    }
}

fn restrict(allowed: &Confinement) -> io::Result<()> {
    let level = match Strength::of_this_machine() {
        Strength::Full => CompatLevel::HardRequirement,
        Strength::Partial(_) | Strength::Missing => CompatLevel::BestEffort,
    };
    let rules = Ruleset::default().set_compatibility(level);
    let rules = match allowed.makes_own_sandbox {
        true => Ok(rules),
        false => rules.handle_access(AccessFs::from_all(VERSION)),
    };
    let mut rules = rules
        .and_then(|rules| rules.handle_access(AccessNet::from_all(VERSION)))
        .and_then(|rules| rules.scope(Scope::from_all(VERSION)))
        .and_then(Ruleset::create)
        .map_err(io::Error::other)?;
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let execute = read | AccessFs::Execute;
    let device = AccessFs::ReadFile | AccessFs::WriteFile;
    let unneeded =
        AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
    let write = AccessFs::from_all(VERSION) & !unneeded;
    for (paths, access) in [
        (&allowed.read, read),
        (&allowed.execute, execute),
        (&allowed.write, write),
        (&allowed.devices, device),
        (&allowed.list, AccessFs::ReadDir.into()),
    ] {
        for path in paths.iter().filter(|_| !allowed.makes_own_sandbox) {
            rules = add(rules, path, access)?;
        }
    }
    for port in &allowed.ports {
        rules =
            rules.add_rule(NetPort::new(*port, AccessNet::ConnectTcp)).map_err(io::Error::other)?;
    }
    rules.restrict_self().map(drop).map_err(io::Error::other)
}

/// Paths that do not exist or are inaccessible to this user are closed anyway.
fn add(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> io::Result<RulesetCreated> {
    let Ok(found) = PathFd::new(path) else { return Ok(rules) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(VERSION) };
    if access.is_empty() {
        return Ok(rules);
    }
    rules.add_rule(PathBeneath::new(found, access)).map_err(io::Error::other)
}
