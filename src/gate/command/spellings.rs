//! Other ways to spell what a program is told to do, so that a deny rule finds the one it names.
//!
//! For deny and ask rules only. Never says that two commands are the same, only that a rule about one
//! is about the other too.

use super::acting::unversioned;
use super::peel::{basename, has_options_first, is_assignment};
use super::spelling_names::{
    FLAGGED, PROGRAM_OF, SAME, SAME_PROGRAMS, SHORTENED, SIGNALS, STANDS_FOR,
};
use super::targets::{
    GOALS, KUBERNETES, KUBERNETES_KINDS, KUBERNETES_VALUED, KUBERNETES_VERBS, SCRIPTS,
};

/// The same command with the names of what it does spelled otherwise. Each may have more of its own.
pub(super) fn spelled_otherwise(argv: &[String]) -> Vec<Vec<String>> {
    let Some((written, rest)) = argv.split_first() else {
        return Vec::new();
    };
    let name = basename(written);
    let mut forms = spellings(name, rest);
    forms.extend(options_behind(argv));
    forms.extend(with_plain_paths(argv));
    // A rule may name the program by its path.
    if written != name {
        let same = forms
            .iter()
            .filter(|form| form.first().is_some_and(|head| head == name));
        let by_path: Vec<Vec<String>> = same
            .filter_map(|form| Some([std::slice::from_ref(written), form.get(1..)?].concat()))
            .collect();
        forms.extend(by_path);
    }
    forms
}

fn spellings(name: &str, rest: &[String]) -> Vec<Vec<String>> {
    let mut forms = Vec::new();
    for (programs, groups) in SAME {
        if programs.contains(&name) {
            forms.extend(groups.iter().flat_map(|group| of_group(name, rest, group)));
        }
    }
    for (programs, words, meant) in STANDS_FOR {
        if programs.contains(&name) {
            forms.extend(replaced(name, rest, words, meant));
        }
    }
    for (programs, full) in SHORTENED {
        if programs.contains(&name) {
            forms.extend(of_beginning(name, rest, full));
        }
    }
    for (programs, same) in SAME_PROGRAMS {
        if programs.contains(&name) {
            forms.push([&[(*same).to_owned()], rest].concat());
        }
    }
    for (program, sub, flags, meant) in FLAGGED {
        let has = |flag: &&str| rest.iter().any(|word| word == flag);
        if *program == name && starts_with(rest, sub) && flags.iter().all(has) {
            let kept = rest
                .iter()
                .skip(1)
                .filter(|word| !flags.contains(&word.as_str()));
            let head = std::iter::once(name)
                .chain(meant.split(' '))
                .map(str::to_owned);
            forms.push(head.chain(kept.cloned()).collect());
        }
    }
    for (program, sub, meant) in PROGRAM_OF {
        if *program == name && starts_with(rest, sub) {
            forms.push([&[(*meant).to_owned()], rest.get(1..).unwrap_or_default()].concat());
        }
        if *meant == name {
            let head = [program, sub].map(|word| (*word).to_owned());
            forms.push([&head, rest].concat());
        }
    }
    forms.extend(by_number(name, rest));
    forms.extend(with_dash(name, rest));
    forms.extend(bare_stash(name, rest));
    forms.extend(forced_push(name, rest));
    forms.extend(kebab(name, rest));
    forms.extend(workspace(name, rest));
    forms.extend(script(name, rest));
    forms.extend(module(name, rest));
    forms.extend(goals(name, rest));
    if KUBERNETES.contains(&name) {
        forms.extend(kinds(name, rest));
    }
    forms
}

/// With all other names of a group, if the command has one of them.
fn of_group(name: &str, rest: &[String], group: &[&str]) -> Vec<Vec<String>> {
    let begins = |words: &&&str| starts_with(rest, words);
    let Some(found) = group.iter().filter(begins).max_by_key(|words| words.len()) else {
        return Vec::new();
    };
    let others = group.iter().filter(|other| *other != found);
    others
        .filter_map(|other| replaced(name, rest, found, other))
        .collect()
}

fn replaced(name: &str, rest: &[String], words: &str, by: &str) -> Option<Vec<String>> {
    starts_with(rest, words).then(|| {
        let count = words.split(' ').count();
        let words = std::iter::once(name)
            .chain(by.split(' '))
            .map(str::to_owned);
        words.chain(rest.iter().skip(count).cloned()).collect()
    })
}

fn starts_with(rest: &[String], words: &str) -> bool {
    let mut words = words.split(' ').enumerate();
    words.all(|(at, word)| rest.get(at).is_some_and(|found| found == word))
}

/// With every name that a cut off one may mean.
fn of_beginning(name: &str, rest: &[String], full: &[&str]) -> Vec<Vec<String>> {
    let Some((sub, rest)) = rest.split_first().filter(|(sub, _)| !sub.is_empty()) else {
        return Vec::new();
    };
    let means = |full: &&&str| full.starts_with(sub.as_str()) && **full != sub.as_str();
    let meant = full.iter().filter(means);
    meant
        .map(|full| [&[name.to_owned(), (*full).to_owned()], rest].concat())
        .collect()
}

/// `hg -q ci` as `hg ci -q`, `gh issue -R x new` as `gh issue new -R x`. How many of the words behind an
/// option are its values is not known.
fn options_behind(argv: &[String]) -> Vec<Vec<String>> {
    let name = argv.first().map_or("", |name| basename(name));
    let known = SAME.iter().any(|(programs, _)| programs.contains(&name));
    let Some(at) = [1, 2]
        .into_iter()
        .find(|at| argv.get(*at).is_some_and(|word| word.starts_with('-')))
    else {
        return Vec::new();
    };
    if !known || has_options_first(argv) {
        return Vec::new();
    }
    // A word behind an option may be its value; the first one behind another word is none.
    let is_option = |at: usize| argv.get(at).is_some_and(|word| word.starts_with('-'));
    let words = (at + 1..argv.len()).filter(|end| !is_option(*end));
    let values = words.clone().take_while(|end| is_option(end - 1));
    let ends = words.take(values.count() + 1);
    let forms = ends.filter_map(|end| {
        let (head, options) = (argv.get(..at)?, argv.get(at..end)?);
        let (sub, rest) = argv.get(end..)?.split_first()?;
        Some([head, std::slice::from_ref(sub), options, rest].concat())
    });
    forms.collect()
}

/// Paths in their shortest form: `./x` and `.//x/` as `x`, and of the program `././x` as `./x`.
fn with_plain_paths(argv: &[String]) -> Option<Vec<String>> {
    let (name, rest) = argv.split_first()?;
    let name = match name.starts_with('.') {
        true => format!("./{}", plain_path(name)),
        false => name.clone(),
    };
    let rest = rest
        .iter()
        .map(|word| match word.starts_with("./") || word.ends_with('/') {
            true => plain_path(word),
            false => word.clone(),
        });
    let form: Vec<String> = std::iter::once(name).chain(rest).collect();
    (form != argv).then_some(form)
}

fn plain_path(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        match (part, parts.last()) {
            ("..", Some(last)) if *last != ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    match parts.as_slice() {
        // The root, or here.
        [] => path.to_owned(),
        parts => format!("{root}{}", parts.join("/")),
    }
}

/// `kill -KILL 1` and `kill -s KILL 1` as `kill -9 1`.
fn by_number(name: &str, rest: &[String]) -> Option<Vec<String>> {
    if !matches!(name, "kill" | "pkill" | "killall") {
        return None;
    }
    let (first, rest) = rest.split_first()?;
    let (signal, rest) = match first.as_str() {
        "-s" | "-n" | "--signal" => rest
            .split_first()
            .map(|(signal, rest)| (signal.as_str(), rest))?,
        other => (
            other
                .strip_prefix("--signal=")
                .or(other.strip_prefix('-'))?,
            rest,
        ),
    };
    let signal = signal.to_uppercase();
    let bare = signal.trim_start_matches("SIG");
    let known = SIGNALS.iter().find(|(known, _)| *known == bare);
    let number = known.map_or(bare, |(_, number)| *number);
    let form = [&[name.to_owned(), format!("-{number}")], rest].concat();
    (form.get(1) != Some(first)).then_some(form)
}

/// `tar xf a` as `tar -xf a`.
fn with_dash(name: &str, rest: &[String]) -> Option<Vec<String>> {
    let (letters, rest) = rest.split_first()?;
    let is_old = matches!(name, "tar" | "gtar" | "bsdtar") && !letters.starts_with('-');
    is_old.then(|| [&[name.to_owned(), format!("-{letters}")], rest].concat())
}

/// `git push origin +main` as `git push --force origin main`.
fn forced_push(name: &str, rest: &[String]) -> Option<Vec<String>> {
    let (_, rest) = rest
        .split_first()
        .filter(|(sub, _)| name == "git" && *sub == "push")?;
    let is_forced = rest.iter().any(|word| word.starts_with('+'));
    is_forced.then(|| {
        let head = ["git", "push", "--force"].map(str::to_owned);
        let plain = rest
            .iter()
            .map(|word| word.trim_start_matches('+').to_owned());
        head.into_iter().chain(plain).collect()
    })
}

/// `git stash` as `git stash push`.
fn bare_stash(name: &str, rest: &[String]) -> Option<Vec<String>> {
    let options = rest.strip_prefix(&["stash".to_owned()])?;
    let is_bare = name == "git" && options.first().is_none_or(|word| word.starts_with('-'));
    let push = ["git", "stash", "push"].map(str::to_owned);
    is_bare.then(|| [&push, options].concat())
}

/// `npm runScript` as `npm run-script`.
fn kebab(name: &str, rest: &[String]) -> Option<Vec<String>> {
    let (sub, rest) = rest.split_first()?;
    let is_camel = name == "npm" && sub.chars().any(char::is_uppercase);
    is_camel.then(|| {
        let letters = sub.chars().flat_map(|letter| {
            let dash = letter.is_uppercase().then_some('-');
            dash.into_iter().chain(letter.to_lowercase())
        });
        [&[name.to_owned(), letters.collect()], rest].concat()
    })
}

/// `yarn workspace a publish` as `yarn publish`.
fn workspace(name: &str, rest: &[String]) -> Option<Vec<String>> {
    let skipped = match rest.first()?.as_str() {
        "workspace" => 2,
        "workspaces" | "global" => 1,
        _ => return None,
    };
    let inner = rest.get(skipped..).filter(|inner| !inner.is_empty())?;
    (name == "yarn").then(|| [&[name.to_owned()], inner].concat())
}

/// `yarn deploy` as `yarn run deploy`.
fn script(name: &str, rest: &[String]) -> Option<Vec<String>> {
    let (_, own) = SCRIPTS.iter().find(|(program, _)| *program == name)?;
    let sub = rest.first()?;
    let is_run = matches!(sub.as_str(), "run" | "run-script");
    let is_script = !sub.starts_with('-') && !is_run && !own.contains(&sub.as_str());
    let run = [name.to_owned(), "run".to_owned()];
    is_script.then(|| [&run, rest].concat())
}

/// `python3 -m pip` as `pip`, `pip3.11` as `pip`.
fn module(name: &str, rest: &[String]) -> Option<Vec<String>> {
    if matches!(unversioned(name), "python" | "pypy" | "py") {
        let at = rest.iter().position(|word| word == "-m")?;
        let module = rest.get(at + 1..)?;
        return (!module.is_empty()).then(|| module.to_vec());
    }
    let pip = unversioned(name) == "pip" && name != "pip";
    pip.then(|| [&["pip".to_owned()], rest].concat())
}

/// Each goal of a build alone, and all of them without the variables that are set.
fn goals(name: &str, rest: &[String]) -> Vec<Vec<String>> {
    let known = GOALS.iter().find(|(programs, _)| programs.contains(&name));
    let Some((_, valued)) = known else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut options = Vec::new();
    let mut is_value = false;
    for word in rest {
        let is_option = word.starts_with('-');
        match word.split_once('=') {
            _ if is_option || is_value => options.push(word.clone()),
            Some((variable, goal)) if variable.trim_end_matches(':') == ".DEFAULT_GOAL" => {
                found.push(goal_of(goal));
            }
            Some(_) if is_assignment(word) => {}
            Some(_) | None => found.push(goal_of(word)),
        }
        is_value = is_option && valued.contains(&word.as_str());
    }
    let with = |goals: &[String]| [&[name.to_owned()], goals, &options].concat();
    let alone = found.iter().map(|goal| with(std::slice::from_ref(goal)));
    let mut forms: Vec<Vec<String>> = std::iter::once(with(&found)).chain(alone).collect();
    forms.retain(|form| form.get(1..) != Some(rest));
    forms
}

/// `./deploy` as `deploy`, `:app:deploy` as `deploy`.
fn goal_of(word: &str) -> String {
    let last = word.trim_start_matches("./").trim_start_matches('/');
    last.trim_start_matches(':').to_owned()
}

/// `kubectl delete po/x` as `kubectl delete pods x`, and by every other name of pods.
fn kinds(name: &str, rest: &[String]) -> Vec<Vec<String>> {
    let Some((verb, rest)) = rest.split_first() else {
        return Vec::new();
    };
    if !KUBERNETES_VERBS.contains(&verb.as_str()) {
        return Vec::new();
    }
    // The first word that is no option and no value of one.
    let mut at = 0;
    while let Some(option) = rest.get(at).filter(|word| word.starts_with('-')) {
        at += match KUBERNETES_VALUED.contains(&option.as_str()) {
            true => 2,
            false => 1,
        };
    }
    let Some(word) = rest.get(at) else {
        return Vec::new();
    };
    let (before, after) = (rest.get(..at), rest.get(at + 1..));
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    // `po,svc x`.
    let is_list = word.contains(',');
    let named = word.split(',');
    let forms = named.flat_map(|word| {
        let (kind, thing) = match word.split_once('/') {
            Some((kind, thing)) => (kind, Some(thing.to_owned())),
            None => (word, None),
        };
        let others = names_of_kind(kind, thing.is_some() || is_list);
        others.into_iter().map(move |kind| {
            let head = [name, verb, &kind].map(str::to_owned);
            [&head, thing.as_slice(), before, after].concat()
        })
    });
    forms.collect()
}

/// All names of a kind of thing, with which it is told. None: it is no such name as far as anyone knows.
fn names_of_kind(written: &str, is_sure: bool) -> Vec<String> {
    // A version and a group may follow: `deployments.v1.apps`.
    let bare = written.split('.').next().unwrap_or(written).to_lowercase();
    let known = |names: &&&[&str]| names.contains(&bare.as_str());
    match KUBERNETES_KINDS.iter().find(known) {
        Some(names) => names.iter().map(|name| (*name).to_owned()).collect(),
        None if is_sure => vec![written.to_owned(), bare],
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forms(command: &str) -> Vec<String> {
        let argv: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let forms = spelled_otherwise(&argv);
        forms.into_iter().map(|form| form.join(" ")).collect()
    }

    #[test]
    fn what_a_command_does_is_found_by_its_other_names() {
        let cases = [
            (
                "docker container run --privileged x",
                "docker run --privileged x",
            ),
            ("docker run x", "docker container run x"),
            ("docker image rm x", "docker rmi x"),
            ("npm i x", "npm install x"),
            ("npm pub", "npm publish"),
            ("npm test", "npm run test"),
            ("yarn deploy", "yarn run deploy"),
            ("git svn dcommit", "git push"),
            ("git send-pack . main", "git push . main"),
            ("python3 -m pip install x", "pip install x"),
            ("python3.11 -I -m twine upload", "twine upload"),
            ("pip3.11 install x", "pip install x"),
            ("make V=1 deploy", "make deploy"),
            ("make -k clean deploy", "make deploy -k"),
            ("kubectl delete po/x", "kubectl delete pods x"),
            ("kubectl delete Pod x", "kubectl delete pod x"),
            (
                "kubectl delete deployments.v1.apps x",
                "kubectl delete deploy x",
            ),
            (
                "kubectl delete -n a widgets/x",
                "kubectl delete widgets x -n a",
            ),
            ("kubectl get svc,po", "kubectl get pods"),
            (
                "kubectl get a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,po",
                "kubectl get pods",
            ),
            (
                "make a b c d e f g h i j k l m n o p q r deploy",
                "make deploy",
            ),
            ("make -j deploy", "make deploy -j"),
            ("make ./deploy", "make deploy"),
            ("make .DEFAULT_GOAL:=deploy", "make deploy"),
            ("./gradlew :publish", "gradle :publish"),
            ("npm runScript x", "npm run-script x"),
            ("yarn workspace a publish", "yarn publish"),
            ("git stash -u", "git stash push -u"),
            ("git branch -d -f x", "git branch -D x"),
            ("docker volume remove x", "docker volume rm x"),
            ("apt remove x", "apt-get remove x"),
            ("docker-compose up", "docker compose up"),
            ("docker compose up", "docker-compose up"),
            ("npx x", "npm exec x"),
            ("hg -q ci", "hg ci -q"),
            ("svn --password p ci", "svn ci --password p"),
            ("hg -q -v -y -q -v -y ci", "hg ci -q -v -y -q -v -y"),
            ("gh issue -R x new", "gh issue new -R x"),
            ("././deploy.sh x", "./deploy.sh x"),
            ("./x/../deploy.sh", "./deploy.sh"),
            ("node ./a//b.js", "node a/b.js"),
            ("rm -rf .git/", "rm -rf .git"),
            ("./gradlew clean publish", "./gradlew publish"),
            ("git push o +main", "git push --force o main"),
            ("kill -SIGKILL 1", "kill -9 1"),
            ("pkill -s kill x", "pkill -9 x"),
            ("killall --signal=9 x", "killall -9 x"),
            ("tar xzf a", "tar -xzf a"),
            ("svn ci -m x", "svn commit -m x"),
            ("ip a d 1.2.3.4 dev x", "ip address d 1.2.3.4 dev x"),
        ];
        for (command, form) in cases {
            let found = forms(command);
            assert!(found.iter().any(|one| one == form), "{command}: {found:?}");
        }
    }

    #[test]
    fn what_stands_for_another_is_not_that_other() {
        assert!(
            !forms("git push x")
                .iter()
                .any(|form| form.starts_with("git svn"))
        );
        assert_eq!(forms("make deploy"), Vec::<String>::new());
        assert_eq!(forms("git status"), Vec::<String>::new());
        assert_eq!(forms("yarn add x"), Vec::<String>::new());
        let of_value = |command: &str, form: &str| forms(command).iter().any(|one| one == form);
        assert!(!of_value("make -C deploy build", "make deploy"));
        assert!(!of_value("gradle build -x test", "gradle test"));
        assert!(
            !forms("kubectl get pods -n secrets")
                .iter()
                .any(|form| form.contains("get secret"))
        );
    }
}
