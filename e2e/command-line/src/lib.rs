//! Parses the command lines of the programs in e2e with clap, and reports an error in one line.

use std::{
    fmt,
    io::{self, Write as _},
    process::ExitCode,
};

use clap::{Parser, error::ErrorKind};

/// Reads this process' command line. Help is printed, and what cannot be read is refused, with the exit code to end with.
pub fn parse<F: Parser>(program: &str) -> Result<F, ExitCode> {
    F::try_parse().map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A reader that has gone away has read enough.
            let _ = write!(io::stdout(), "{error}");
            ExitCode::SUCCESS
        }
        _ => {
            complain(program, &format!("{}; see --help", one_line(&error.to_string())));
            ExitCode::from(2)
        }
    })
}

/// Says on stderr, in one line, why a program ends.
pub fn complain(program: &str, why: &dyn fmt::Display) {
    let text = why.to_string().replace('\n', " ");
    let _ = writeln!(io::stderr(), "{program}: {text}");
}

/// One line out of what clap says on many.
fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let said = lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"));
    let words: Vec<&str> = said.map(|line| line.strip_prefix("error: ").unwrap_or(line)).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[arg(long)]
        nodes: u32,
    }

    #[test]
    fn a_refusal_is_one_line_that_names_the_flag() {
        for (arguments, expected) in
            [(vec!["p", "--nodes", "x"], "'x' for '--nodes <NODES>'"), (vec!["p", "--node", "1"], "'--node'")]
        {
            let line = one_line(&Flags::try_parse_from(arguments).unwrap_err().to_string());
            assert!(line.contains(expected) && !line.contains('\n') && !line.contains("Usage"), "{line:?}");
        }
        assert_eq!(Flags::try_parse_from(["p", "--nodes", "3"]).unwrap().nodes, 3);
    }
}
