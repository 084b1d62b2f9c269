//! What a process was started with.

use std::io;

use super::files::Files;

/// The options that name a configuration, of containerd and of nvidia-imex;
/// none of them means something else to the other.
const OPTIONS: [&str; 3] = ["-c", "--config", "--config-file"];

/// The words of a process, its own name first: none of one that has ended, and
/// is only remembered for its parent. `None` if there is no such process.
pub(super) fn words(files: &Files, pid: u32) -> io::Result<Option<Vec<String>>> {
    let text = files.text(&format!("/proc/{pid}/cmdline"))?;
    Ok(text.map(|text| match text.as_str() {
        "" => vec![],
        text => {
            let words = text.trim_end_matches('\0').split('\0');
            words.map(str::to_owned).collect()
        }
    }))
}

/// What the words of a command line give as configuration: the last, as
/// programs take it.
pub(super) fn config(words: &[String]) -> Option<&str> {
    let mut words = words.iter().skip(1).map(String::as_str);
    let mut found = None;
    while let Some(word) = words.next() {
        if OPTIONS.contains(&word) {
            found = words.next().or(found);
        } else if let Some((_, path)) = word
            .split_once('=')
            .filter(|(name, _)| OPTIONS.contains(name))
        {
            found = Some(path);
        } else if let Some(path) = word.strip_prefix("-c").filter(|_| !word.starts_with("-co")) {
            found = Some(path);
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
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(config(&words), found, "{line}");
        }
    }
}
