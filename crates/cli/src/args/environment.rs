//! Environment variables: one for every long option, beside the command line.
//!
//! The names follow from the options (`tidelock serve --tls-cert` is `TIDELOCK_SERVE_TLS_CERT`), so
//! they are added to the finished command line and spelled nowhere. The name of the command is part
//! of them: what is exported for one command never changes another.

use std::ffi::{OsStr, OsString};

use clap::builder::BoolishValueParser;
use clap::{Arg, ArgAction, Command};

const PREFIX: &str = "TIDELOCK";
/// What separates the values of a repeatable option.
const DELIMITER: char = ',';
/// What a variable says to leave a flag off; the parser of flags reads the same words.
const OFF: [&str; 6] = ["false", "no", "off", "n", "f", "0"];

/// A command line that also reads the environment.
pub(crate) struct WithEnvironment {
    /// The command line.
    pub(crate) line: Command,
    /// The variables that are set, of commands that the arguments name.
    pub(crate) set: Vec<String>,
}

impl WithEnvironment {
    /// Adds the variables to a command line that is about to parse these arguments.
    pub(crate) fn new(line: Command, arguments: &[OsString]) -> Self {
        let mut reading = Reading { arguments, set: Vec::new() };
        let line = reading.extend(PREFIX, line);
        Self { line, set: reading.set }
    }
}

struct Reading<'a> {
    arguments: &'a [OsString],
    set: Vec<String>,
}

impl Reading<'_> {
    /// Adds the variables that begin with this path to a command and to those below it.
    fn extend(&mut self, path: &str, command: Command) -> Command {
        let is_named = path == PREFIX || self.arguments.iter().any(|arg| arg == command.get_name());
        let command = command.mut_args(|arg| match arg.get_long().map(|long| name(path, long)) {
            Some(variable) => self.option(arg, variable, is_named),
            None => arg,
        });
        command.mut_subcommands(|below| {
            let path = name(path, below.get_name());
            self.extend(&path, below)
        })
    }

    fn option(&mut self, arg: Arg, variable: String, is_named: bool) -> Arg {
        let value = std::env::var_os(&variable);
        let is_flag = matches!(arg.get_action(), ArgAction::SetTrue);
        // A flag that is off, or an option without a value, also counts as absent for the options
        // that it excludes.
        if value.as_deref().is_some_and(|value| value.is_empty() || is_flag && is_off(value)) {
            return arg;
        }
        // Not when it is on the command line, where the option is repeated instead.
        let split = matches!(arg.get_action(), ArgAction::Append) && !self.is_given(&arg);
        if value.is_some() && is_named {
            self.set.push(variable.clone());
        }
        let arg = if is_flag { arg.value_parser(BoolishValueParser::new()) } else { arg };
        let arg = if split { arg.value_delimiter(DELIMITER) } else { arg };
        // The values may be secret, and help is shown to anyone.
        arg.env(variable).hide_env_values(true)
    }

    /// Whether the arguments have this option.
    fn is_given(&self, arg: &Arg) -> bool {
        let Some(long) = arg.get_long() else { return false };
        let is_this = |argument: &OsString| {
            let name = argument.to_str().and_then(|text| text.strip_prefix("--"));
            name.and_then(|text| text.split('=').next()) == Some(long)
        };
        self.arguments.iter().any(is_this)
    }
}

/// The variable of an option, or the beginning of those of a command.
fn name(path: &str, long: &str) -> String {
    format!("{path}_{}", long.replace('-', "_").to_uppercase())
}

fn is_off(value: &OsStr) -> bool {
    value.to_str().is_some_and(|text| OFF.iter().any(|off| off.eq_ignore_ascii_case(text)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write as _;

    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Args;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/command.md");

    /// The whole command line, with every command's own options and without those of all commands.
    fn commands() -> Vec<Command> {
        let line = WithEnvironment::new(Args::command(), &[]).line;
        let below = line.get_subcommands().cloned().collect::<Vec<_>>();
        [vec![line], below].concat()
    }

    fn options(command: &Command) -> Vec<&Arg> {
        command.get_arguments().filter(|arg| arg.get_long().is_some()).collect()
    }

    fn variable(arg: &Arg) -> String {
        let variable = arg.get_env().unwrap_or_else(|| panic!("--{arg} has no variable"));
        variable.to_string_lossy().into_owned()
    }

    /// CMD-13.
    #[test]
    fn every_long_option_has_a_variable_of_its_own() {
        let commands = commands();
        assert!(commands.iter().all(|command| command.get_subcommands().count() < 100));
        let all: Vec<_> = commands.iter().flat_map(options).map(variable).collect();
        assert!(all.len() > 100, "the options were not found: {all:?}");
        let distinct: BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len(), "two options share a variable: {all:?}");
        for known in ["TIDELOCK_STORE", "TIDELOCK_SERVE_TLS_CERT", "TIDELOCK_EVENTS_TYPE"] {
            assert!(all.iter().any(|variable| variable == known), "{known} is not in {all:?}");
        }
    }

    /// CMD-13.
    #[test]
    fn the_page_lists_every_command_with_its_options_and_variables() {
        let written = std::fs::read_to_string(PAGE).unwrap_or_default();
        let (start, end) = ("<!-- generated: the options -->\n", "<!-- end -->");
        let above = written.split_inclusive(start).next().unwrap_or_default();
        let below = written.split_once(end).map_or("", |(_, below)| below);
        let page = format!("{above}\n{}{end}{below}", generated());
        if std::env::var_os("TIDELOCK_WRITE_PAGES").is_some() {
            std::fs::write(PAGE, &page).unwrap();
        }
        assert!(
            written == page,
            "docs/guides/command.md is not what the command line says; \
             TIDELOCK_WRITE_PAGES=1 and this test write it"
        );
    }

    fn generated() -> String {
        let mut page = String::new();
        for command in commands() {
            let (name, about) = (command.get_name(), command.get_about());
            let title =
                if name == "tidelock" { "All commands".into() } else { format!("`{name}`") };
            let about = about.map(ToString::to_string).filter(|_| name != "tidelock");
            writeln!(page, "### {title}\n").unwrap();
            about.into_iter().for_each(|about| writeln!(page, "{about}.\n").unwrap());
            let options = options(&command);
            if !options.is_empty() {
                page.push_str("| option | variable | |\n|---|---|---|\n");
                options.into_iter().for_each(|arg| page.push_str(&row(arg)));
                page.push('\n');
            }
        }
        page
    }

    fn row(arg: &Arg) -> String {
        let long = arg.get_long().unwrap();
        let values = arg.get_value_names().unwrap_or_default();
        let takes = arg.get_action().takes_values();
        let values: String =
            values.iter().filter(|_| takes).map(|value| format!(" {value}")).collect();
        let short = arg.get_short().map(|short| format!(", `-{short}`")).unwrap_or_default();
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let default: Vec<_> = arg
            .get_default_values()
            .iter()
            .filter(|_| takes)
            .map(|v| v.to_string_lossy())
            .collect();
        let default = match default.iter().any(|value| !value.is_empty()) {
            true => format!(" (default: `{}`)", default.join(" ")),
            false => String::new(),
        };
        let text = format!("{help}{default}").replace('|', "\\|").replace('*', "\\*");
        format!("| `--{long}{values}`{short} | `{}` | {text} |\n", variable(arg))
    }

    #[test]
    fn a_flag_is_off_in_the_words_in_which_it_is_parsed_as_off() {
        use clap::builder::TypedValueParser as _;
        let line = Args::command();
        for word in OFF {
            let parsed = BoolishValueParser::new().parse_ref(&line, None, OsStr::new(word));
            assert!(!parsed.unwrap(), "{word}");
            assert!(is_off(OsStr::new(word)));
        }
        assert!(!is_off(OsStr::new("on")) && !is_off(OsStr::new("offf")));
    }
}
