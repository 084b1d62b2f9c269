//! The command lines of processes.

use std::io;

use crate::files::HostFiles;

/// The options that name a configuration, of containerd and of nvidia-imex;
/// none of them means something else to the other.
const OPTIONS: [&str; 3] = ["-c", "--config", "--config-file"];

/// The arguments of a process, its own name first: none of one that has ended,
/// and is only kept for its parent. `None` if there is no such process.
pub(crate) fn arguments(files: &HostFiles, pid: u32) -> io::Result<Option<Vec<String>>> {
    let text = files.read_text(&format!("/proc/{pid}/cmdline"))?;
    Ok(text.map(|text| match text.as_str() {
        "" => vec![],
        text => {
            let arguments = text.trim_end_matches('\0').split('\0');
            arguments.map(str::to_owned).collect()
        }
    }))
}

/// The configuration that a command line names. `-cFILE` is one, too.
pub(crate) fn config_option(arguments: &[String]) -> Option<&str> {
    last_value(arguments, &OPTIONS, |argument| {
        let value = argument.strip_prefix("-c");
        value.filter(|_| !argument.starts_with("-co"))
    })
}

/// The value of a long or a short option, by any of its names.
pub(crate) fn option<'a>(arguments: &'a [String], names: &[&str]) -> Option<&'a str> {
    last_value(arguments, names, |_| None)
}

/// The last value counts, as for programs. `attached`: the value in an argument that is
/// neither a name nor `NAME=VALUE`.
fn last_value<'a>(
    arguments: &'a [String],
    names: &[&str],
    attached: impl Fn(&'a str) -> Option<&'a str>,
) -> Option<&'a str> {
    let mut arguments = arguments.iter().skip(1).map(String::as_str);
    let mut found = None;
    while let Some(argument) = arguments.next() {
        if names.contains(&argument) {
            found = arguments.next().or(found);
        } else if let Some((name, value)) = argument.split_once('=')
            && names.contains(&name)
        {
            found = Some(value);
        } else {
            found = attached(argument).or(found);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_named_in_each_way_that_options_have() {
        for (line, found) in [
            ("nvidia-imex", None),
            ("nvidia-imex -c /a", Some("/a")),
            ("nvidia-imex -p 1 -c/a", Some("/a")),
            ("nvidia-imex --config /a", Some("/a")),
            ("nvidia-imex --config=/a --nogpu", Some("/a")),
            ("nvidia-imex --config-file=/a", Some("/a")),
            ("nvidia-imex -c /a -c /b", Some("/b")),
            ("nvidia-imex -c", None),
            ("containerd -c=/a --root /b", Some("/a")),
            ("containerd --log-level info --config=/a", Some("/a")),
            ("-c /a", None),
        ] {
            let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(config_option(&arguments), found, "{line}");
        }
    }
}
