//! Paths in command lines that a person copies into a shell.

/// Quotes `text` for a POSIX shell, where it needs that.
///
/// ```
/// use host_doctor::shell_quote;
///
/// assert_eq!(shell_quote("/etc/cdi/nvidia.yaml"), "/etc/cdi/nvidia.yaml");
/// assert_eq!(shell_quote("it's here"), r"'it'\''s here'");
/// ```
pub fn shell_quote(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:=@%,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_shell_would_split_or_expand_is_quoted() {
        assert_eq!(shell_quote("/etc/cdi/a.json"), "/etc/cdi/a.json");
        assert_eq!(shell_quote("a b"), "'a b'");
        assert_eq!(shell_quote("$HOME"), "'$HOME'");
        assert_eq!(shell_quote("it's"), r"'it'\''s'");
        assert_eq!(shell_quote(""), "''");
    }
}
