//! Asks for confirmation before a command changes several things at once.

use std::io::{BufRead, IsTerminal as _, Write};

use super::error::CommandError;

/// Asks on a terminal unless `yes` was given. A script is never asked.
pub fn confirm(question: &str, yes: bool) -> Result<bool, CommandError> {
    let (input, output) = (std::io::stdin(), std::io::stderr());
    if yes || !input.is_terminal() || !output.is_terminal() {
        return Ok(true);
    }
    ask(question, &mut input.lock(), &mut output.lock())
}

fn ask(
    question: &str,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> Result<bool, CommandError> {
    let failed = || CommandError::io("cannot use the terminal");
    write!(output, "{question} [y/N] ").map_err(failed())?;
    output.flush().map_err(failed())?;
    let mut answer = String::new();
    input.read_line(&mut answer).map_err(failed())?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_counts() {
        for (answer, expected) in
            [("y\n", true), ("YES\n", true), ("\n", false), ("n\n", false), ("", false)]
        {
            let mut asked = Vec::new();
            let confirmed = ask("End 3 sessions?", &mut answer.as_bytes(), &mut asked).unwrap();
            assert_eq!(confirmed, expected, "{answer:?}");
            assert_eq!(asked, b"End 3 sessions? [y/N] ");
        }
    }
}
