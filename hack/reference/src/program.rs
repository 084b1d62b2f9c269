//! A program's options as a page.

use std::fmt::Write as _;

use clap::{Arg, Command};

use crate::page::cell;

/// The heading of options that have none.
const OPTIONS: &str = "Options";

/// The page of a program: its options and those of its subcommands, by heading, with environment
/// variables and defaults. Hidden options, `--help` and `--version` are left out.
pub fn program_page(mut command: Command) -> String {
    command.build();
    let mut page = String::new();
    write_command(&mut page, &command, 1);
    page
}

fn write_command(page: &mut String, command: &Command, level: usize) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let _ = writeln!(page, "{} {name}", "#".repeat(level)); // writing to a String cannot fail
    if let Some(about) = command.get_long_about().or_else(|| command.get_about()) {
        let _ = writeln!(page, "\n{}", about.to_string().trim());
    }
    let shown: Vec<&Arg> = command
        .get_arguments()
        .filter(|arg| is_shown(arg))
        .collect();
    let mut headings: Vec<&str> = Vec::new();
    for arg in &shown {
        let heading = heading(arg);
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    for heading_of_group in headings {
        let _ = writeln!(page, "\n{} {heading_of_group}\n", "#".repeat(level + 1));
        page.push_str("| option | environment | default | |\n|---|---|---|---|\n");
        for arg in shown.iter().filter(|arg| heading(arg) == heading_of_group) {
            page.push_str(&row(arg));
        }
    }
    let subcommands = command
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    for subcommand in subcommands.filter(|command| command.get_name() != "help") {
        page.push('\n');
        write_command(page, subcommand, level + 1);
    }
}

fn is_shown(arg: &Arg) -> bool {
    !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str())
}

fn heading(arg: &Arg) -> &str {
    arg.get_help_heading().unwrap_or(OPTIONS)
}

fn row(arg: &Arg) -> String {
    let environment = arg.get_env().map(|name| format!("`{}`", name.display()));
    let help = arg
        .get_long_help()
        .or_else(|| arg.get_help())
        .map(ToString::to_string);
    format!(
        "| {} | {} | {} | {} |\n",
        option(arg),
        environment.unwrap_or_default(),
        default(arg),
        cell(&help.unwrap_or_default())
    )
}

/// `-v`, `--v N`, `--enabled[=BOOL]`.
fn option(arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("`-{short}`, "));
    let long = arg.get_long().map(|long| format!("--{long}"));
    cell(&format!(
        "{}`{}{}`",
        short.unwrap_or_default(),
        long.unwrap_or_default(),
        value(arg)
    ))
}

fn value(arg: &Arg) -> String {
    if !takes_values(arg) {
        return String::new();
    }
    let names = arg.get_value_names().unwrap_or_default().join(" ");
    let between = if arg.is_require_equals_set() {
        '='
    } else {
        ' '
    };
    let optional = arg
        .get_num_args()
        .is_some_and(|count| count.min_values() == 0);
    match (optional, arg.get_long()) {
        (true, _) => format!("[{between}{names}]"),
        (false, Some(_)) => format!("{between}{names}"),
        (false, None) => names,
    }
}

/// Whether the option takes values. Some flags do, although their action needs none: `--enabled=false`.
fn takes_values(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|count| count.takes_values())
}

fn default(arg: &Arg) -> String {
    let defaults = arg.get_default_values().iter();
    let defaults: Vec<_> = defaults.map(|value| value.to_string_lossy()).collect();
    match defaults.join(",") {
        _ if arg.is_required_set() => "required".to_owned(),
        value if value.is_empty() || !takes_values(arg) => String::new(),
        value => format!("`{}`", cell(&value)),
    }
}

#[cfg(test)]
mod tests {
    use clap::ArgAction;

    use super::*;

    // `env` reads the variable if it is set: that does not change the page.
    fn mk_command() -> Command {
        let port = Arg::new("port").long("port").env("PORT").value_name("N");
        let enabled = Arg::new("on").long("on").action(ArgAction::SetTrue);
        let enabled = enabled.num_args(0..=1).require_equals(true);
        let enabled = enabled.value_name("BOOL").default_value("false");
        let mode = Arg::new("mode")
            .short('m')
            .long("mode")
            .help_heading("Mode");
        Command::new("p")
            .about("Does it.")
            .version("1")
            .arg(port.default_value("80").help("Where it\nlistens: a | b"))
            .arg(mode.value_name("MODE").required(true).help("How"))
            .arg(enabled)
            .arg(Arg::new("secret").long("secret").hide(true))
            .subcommand(Command::new("hidden").hide(true))
            .subcommand(
                Command::new("try")
                    .about("Only tries.")
                    .arg(Arg::new("force").long("force").action(ArgAction::SetTrue)),
            )
    }

    #[test]
    fn a_page_has_options_by_heading_then_subcommands_and_nothing_hidden() {
        assert_eq!(
            program_page(mk_command()),
            "# p\n\nDoes it.\n\n\
             ## Options\n\n\
             | option | environment | default | |\n|---|---|---|---|\n\
             | `--port N` | `PORT` | `80` | Where it listens: a \\| b |\n\
             | `--on[=BOOL]` |  | `false` |  |\n\n\
             ## Mode\n\n\
             | option | environment | default | |\n|---|---|---|---|\n\
             | `-m`, `--mode MODE` |  | required | How |\n\n\
             ## p try\n\nOnly tries.\n\n\
             ### Options\n\n\
             | option | environment | default | |\n|---|---|---|---|\n\
             | `--force` |  |  |  |\n"
        );
    }
}
