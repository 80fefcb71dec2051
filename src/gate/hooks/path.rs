//! Whether a path lies inside a directory, by its components.
//!
//! Never by a common beginning of the texts, and never by a path whose meaning nobody knows. Looks at
//! no disk: what a path really is, executors say.

/// Whether the path is one of the directories or lies below one.
///
/// `.` and `..` are resolved, a relative path from `cwd`. A path that cannot be told lies nowhere: one
/// that is relative without a working directory, begins with `~`, or holds a zero byte.
#[must_use]
pub fn is_inside(path: &str, directories: &[String], cwd: Option<&str>) -> bool {
    let Some(path) = absolute(path, cwd) else {
        return false;
    };
    let mut directories = directories.iter();
    directories.any(|directory| {
        absolute(directory, None).is_some_and(|directory| path.starts_with(&directory))
    })
}

/// The components of the path from the root.
fn absolute(path: &str, cwd: Option<&str>) -> Option<Vec<String>> {
    if path.is_empty() || path.contains('\0') || path.starts_with('~') {
        return None;
    }
    let mut components = match path.starts_with('/') {
        true => Vec::new(),
        false => absolute(cwd.filter(|cwd| cwd.starts_with('/'))?, None)?,
    };
    for component in path.split('/') {
        match component {
            "" | "." => {}
            ".." => {
                components.pop();
            }
            name => components.push(name.to_owned()),
        }
    }
    Some(components)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_count_and_not_the_beginning_of_the_text() {
        let inside = |path: &str| {
            let directories = ["/srv/projects/".to_owned(), "/tmp".to_owned()];
            is_inside(path, &directories, Some("/srv/projects/app"))
        };
        for path in [
            "/srv/projects",
            "/srv/projects/a/b",
            "/tmp/./x",
            "/tmp//x",
            "/etc/../tmp/x",
            "main.rs",
            "../other/main.rs",
            "/../tmp/x",
        ] {
            assert!(inside(path), "{path}");
        }
        for path in [
            "/srv/projects-secret/a",
            "/tmp/../etc/passwd",
            "/tmpfile",
            "../../secret",
            "~/x",
            "~root/x",
            "",
            "/tmp/\0/x",
            "/",
        ] {
            assert!(!inside(path), "{path}");
        }
    }

    #[test]
    fn a_relative_path_without_a_working_directory_lies_nowhere() {
        let everywhere = ["/".to_owned()];
        assert!(!is_inside("x", &everywhere, None));
        assert!(!is_inside("x", &everywhere, Some("somewhere")));
        assert!(is_inside("x", &everywhere, Some("/somewhere")));
    }
}
