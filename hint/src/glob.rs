//! Patterns of file names: `*`, `?`, and sets such as `[a-z]` or `[!0-9]`. A backslash takes the next character literally.
//!
//! A pattern with a slash is compared with the whole path, and one without with its last component. `*` and `?` match a slash as well.

/// Whether one of the patterns, which are parted by colons, matches the path.
pub fn any_matches(patterns: &[u8], path: &[u8]) -> bool {
    patterns.split(|&byte| byte == b':').filter(|pattern| !pattern.is_empty()).any(|pattern| is_match_of_path(pattern, path))
}

fn is_match_of_path(pattern: &[u8], path: &[u8]) -> bool {
    let last = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    is_match(pattern, if pattern.contains(&b'/') { path } else { last })
}

/// Whether the pattern matches all of the text. Takes time in proportion to the product of their lengths.
fn is_match(pattern: &[u8], text: &[u8]) -> bool {
    let (mut rest, mut text) = (pattern, text);
    // The rest of the pattern behind the last star, and of the text where the star may take one more byte.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', behind @ ..] = rest {
            star = Some((behind, text));
            rest = behind;
            continue;
        }
        let Some((&first, others)) = text.split_first() else { return rest.is_empty() };
        if let Some(behind) = behind_one(rest, first) {
            (rest, text) = (behind, others);
            continue;
        }
        let Some((behind, [_, further @ ..])) = star else { return false };
        star = Some((behind, further));
        (rest, text) = (behind, further);
    }
}

/// Returns the pattern behind its first element, if that one matches the byte.
fn behind_one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [b'?', behind @ ..] => Some(behind),
        [b'[', set @ ..] => match behind_set(set, byte) {
            Some((is_in, behind)) => is_in.then_some(behind),
            // Without its end it is no set.
            None => (byte == b'[').then_some(set),
        },
        [b'\\', literal, behind @ ..] => (*literal == byte).then_some(behind),
        [literal, behind @ ..] => (*literal == byte).then_some(behind),
        [] => None,
    }
}

/// Whether the byte is in a set, which is given from behind its `[`, and the pattern behind the set; none where the set has no end.
fn behind_set(set: &[u8], byte: u8) -> Option<(bool, &[u8])> {
    let (is_inverse, mut rest) = match set {
        [b'!' | b'^', inner @ ..] => (true, inner),
        _ => (false, set),
    };
    let mut is_in = false;
    let mut is_first = true;
    loop {
        rest = match rest {
            [b']', behind @ ..] if !is_first => return Some((is_in != is_inverse, behind)),
            [low, b'-', high, behind @ ..] if *high != b']' => {
                is_in |= (*low..=*high).contains(&byte);
                behind
            }
            [member, behind @ ..] => {
                is_in |= *member == byte;
                behind
            }
            [] => return None,
        };
        is_first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_what_a_shell_would() {
        let matches = [
            ("*", ""),
            ("*.db", "a.db"),
            ("a*b*c", "aXbYbZc"),
            ("?[a-c]?", "xbz"),
            ("[!0-9]*", "a1"),
            ("[]x]", "]"),
            ("[a-]", "-"),
            ("\\*", "*"),
            ("[", "["),
            ("**a", "bba"),
        ];
        let others =
            [("", "a"), ("*.db", "a.dbx"), ("a?", "a"), ("[!0-9]*", "1a"), ("\\*", "a"), ("a*b*c", "acb"), ("[a-c]", "d"), ("a", "")];
        for (pattern, text) in matches {
            assert!(is_match(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        for (pattern, text) in others {
            assert!(!is_match(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }

    #[test]
    fn patterns_with_a_slash_are_for_whole_paths() {
        assert!(any_matches(b"*.log:*.db", b"/srv/a/x.db") && any_matches(b"/srv/*", b"/srv/a/x.db"));
        assert!(!any_matches(b"srv*", b"/srv/a/x.db") && !any_matches(b"/srv", b"/srv/a") && !any_matches(b"::", b"/srv"));
    }

    #[test]
    fn a_pattern_of_many_stars_ends() {
        let began = std::time::Instant::now();
        let pattern = ["*a".repeat(50), "c".to_owned()].concat();
        assert!(!is_match(pattern.as_bytes(), "a".repeat(1000).as_bytes()));
        assert!(began.elapsed().as_secs() < 5);
    }
}
