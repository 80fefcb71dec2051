//! Commands that other permission systems got wrong, one row each.
//!
//! Never about rules: a row names the words that a deny or allow rule would begin with.

use super::super::analyse;
use super::{TWO_PARSERS, allows, sees};

/// A deny rule on these words must find them in the command.
const DENIED: &[(&str, &str, &str)] = &[
    ("B14", "true && true && true && curl h", "curl"),
    ("B16", "r\\\nm x", "rm"),
    ("B16", "echo a; r\\\nm -rf\\\n /x", "rm -rf"),
    ("B17", "npm t; rm x", "rm"),
    ("B20", "ls ;; rm x", "rm"),
    ("B21", "( ( rm x ) )", "rm x"),
    ("B21", "((rm x) )", "rm x"),
    ("B21", "( (rm x; ls) )", "rm x"),
    ("B22", "time rm x", "rm x"),
    ("B22", "time -p rm x", "rm x"),
    ("B22", "coproc rm x", "rm x"),
    ("B22", "coproc work { rm x; }", "rm x"),
    ("B22", "! rm x", "rm x"),
    ("B23", "cat <<E\n`rm x`\nE\n", "rm x"),
    ("B23", "cat <<E\n$(rm x)\nE\n", "rm x"),
    ("B24", "cat <<-E\n\t$(rm x)\n\tE\n", "rm x"),
    ("B24", "cat <<-E\n\t`rm x`\n\tE\n", "rm x"),
    ("B25", "git ${Y:-`rm b`}", "rm b"),
    ("B25", "git ${Y:-$(rm b)}", "rm b"),
    ("B25", "git \"${Y:=$(rm b)}\"", "rm b"),
    ("B25", "git ${Y/a/$(rm b)}", "rm b"),
    ("B25", "echo `echo \\`rm b\\``", "rm b"),
    ("B26", "echo $[ x='a[$(touch F)]', x ]", "touch F"),
    ("B26", "echo $(( a[$(touch F)] ))", "touch F"),
    ("B28", "git log --format=$(rm x)", "rm x"),
    ("B28", "git log \"--format=$(rm x)\"", "rm x"),
    ("B28", "git log --format=`rm x`", "rm x"),
    ("B31", "[[ a =~ $(rm x) ]]", "rm x"),
    ("B31", "[[ -n ${a[$(rm x)]} ]]", "rm x"),
    ("B31", "test -v 'a[$(rm x)]'", "rm x"),
    ("B31", "printf -v 'a[$(rm x)]' y", "rm x"),
    ("B32", "echo \"a\"; rm x; echo \"b\"", "rm x"),
    ("B38", "direnv exec . git add -A", "git add -A"),
    ("B40", "find . -exec rm -rf {} ;", "rm -rf"),
    ("B40", "find . -name a -exec sh -c 'rm x' \\;", "rm x"),
    ("B41", "devbox run rm -rf .", "rm -rf ."),
    ("B44", "LD_PRELOAD=x rm y", "rm y"),
    ("B44", "PATH=/tmp:$PATH rm y", "rm y"),
    ("B47", "zsh -lc 'git status > f'", "git status"),
    ("B50", "rm -fr /", "rm -rf /"),
    ("B50", "rm -r -f /", "rm -rf /"),
    ("B50", "rm -f -R /", "rm -rf /"),
    ("B50", "rm --recursive --force /", "rm -rf /"),
    ("B50", "rm --rec --fo /", "rm -rf /"),
    ("B50", "rm / -rf", "rm -rf /"),
    ("B50", "rm -rf -- /", "rm -rf /"),
    ("B50", "rm -vrf /", "rm -rf /"),
    ("B52", "grep root /etc/passwd", "grep root /etc/passwd"),
    ("B53", "cat /etc/os-release", "cat"),
    ("B55", "yarn test", "yarn"),
    ("B56", "kill -9 1", "kill -9 1"),
    ("B58", "git checkout -- f", "git checkout"),
    ("B59", "git -C /r -c a=b push --force", "git push"),
    ("B59", "git --git-dir=/r push -f", "git push --force"),
    ("B59", "kubectl -n prod delete pod x", "kubectl delete"),
    ("B59", "docker --context c rm -f x", "docker rm"),
    ("B62", "rm \\-rf /", "rm -rf /"),
    ("B62", "\\rm -rf /", "rm -rf /"),
    ("B64", "r${IFS}m x; rm$IFS-rf /", "rm-rf /"),
    ("B67", "rm -r -f x", "rm -rf x"),
    ("B67", "rm --force x", "rm -f x"),
    ("B68", "bash -lc \"rm x\"", "rm x"),
    ("B68", "env bash -c 'rm x'", "rm x"),
    ("B68", "timeout 5 bash -c 'rm x'", "rm x"),
    (
        "B68",
        "timeout -k 1 -s KILL 5 nice -n 5 bash -c 'rm x'",
        "rm x",
    ),
    ("B68", "bash -c \"bash -c 'rm x'\"", "rm x"),
    ("B71", "gcloud -h", "gcloud -h"),
    ("B77", "sed -i s/a/b/ f", "sed -i"),
    ("B77", "sed --in-place s/a/b/ f", "sed -i"),
    ("B82", "cd .git && echo x > config", "cd .git"),
    ("B86", "rm -rf $HOME", "rm -rf $HOME"),
    ("quoted", "'rm' x", "rm x"),
    ("quoted", "r''m x", "rm x"),
    ("quoted", "r\"m\" x", "rm x"),
    ("quoted", "$'\\x72m' x", "rm x"),
    ("quoted", "$'\\162m' x", "rm x"),
    ("quoted", "/bin/rm x", "rm x"),
    ("quoted", "r$(true)m x", "rm x"),
    ("quoted", "{rm,-rf,/x}", "rm -rf /x"),
    ("evaluated", "eval rm x", "rm x"),
    ("evaluated", "eval 'rm' \"x\"", "rm x"),
    ("evaluated", "eval \"eval 'rm x'\"", "rm x"),
    ("evaluated", "trap 'rm x' EXIT", "rm x"),
    ("evaluated", "exec rm x", "rm x"),
    ("evaluated", "exec -a name rm x", "rm x"),
    ("evaluated", "alias ll='rm x'", "rm x"),
    ("evaluated", "mapfile -C 'rm x' a", "rm x"),
    ("fed", "bash <<< 'rm x'", "rm x"),
    ("fed", "bash <<'E'\nrm x\nE\n", "rm x"),
    ("fed", "echo 'rm x' | sh", "rm x"),
    ("fed", "printf 'rm x' | sudo bash -s", "rm x"),
    ("fed", "cat <<'E' | sh\nrm x\nE\n", "rm x"),
    ("run", "xargs rm -rf", "rm -rf"),
    ("run", "ls | xargs -I{} -n 1 rm -rf {}", "rm -rf"),
    ("run", "ls | xargs -0 sh -c 'rm x'", "rm x"),
    ("run", "env -i A=b rm x", "rm x"),
    ("run", "env -S 'rm x'", "rm x"),
    ("run", "sudo -u root -- rm x", "rm x"),
    ("run", "sudo --user=root A=b rm x", "rm x"),
    ("run", "sudo --unknown-thing rm x", "rm x"),
    ("run", "su - root -c 'rm x'", "rm x"),
    ("run", "flock /l -c 'rm x'", "rm x"),
    ("run", "flock -n /l rm x", "rm x"),
    ("run", "watch -n 5 rm x", "rm x"),
    ("run", "watch 'rm x'", "rm x"),
    ("run", "ssh -p 22 host 'rm x'", "rm x"),
    ("run", "docker exec -it box rm x", "rm x"),
    ("run", "docker --context c exec box rm x", "rm x"),
    ("run", "docker run --rm -v /:/h image rm x", "rm x"),
    ("run", "kubectl exec pod -- rm x", "rm x"),
    ("run", "busybox rm x", "rm x"),
    ("run", "/lib64/ld-linux-x86-64.so.2 /bin/rm x", "rm x"),
    ("run", "npx rm x", "rm x"),
    ("run", "git submodule foreach 'rm x'", "rm x"),
    ("run", "git rebase main --exec 'rm x'", "rm x"),
    ("run", "git bisect run rm x", "rm x"),
    ("run", "bash -c '\"$@\"' name rm x", "rm x"),
    ("run", "command -p rm x", "rm x"),
    ("run", "nohup nice -10 stdbuf -oL rm x", "rm x"),
    ("run", "setsid -f ionice -c 3 rm x", "rm x"),
];

#[test]
fn what_a_deny_rule_names_is_found() {
    let missed = DENIED
        .iter()
        .filter(|(_, text, words)| !sees(&analyse(text), words));
    assert_eq!(
        missed.collect::<Vec<_>>(),
        Vec::<&(&str, &str, &str)>::new()
    );
}

/// Allow rules on these words must not be enough.
const ASKED: &[(&str, &str, &[&str])] = &[
    ("B01", "echo a && ls", &["echo"]),
    ("B02", "cd sub && python3 s.py", &["cd"]),
    (
        "B04",
        "rm -rf d && ln -s a d && ls d",
        &["ls", "cat", "cd", "ln"],
    ),
    ("B05", "git log -1; id", &["git log"]),
    ("B07", "make && ./app", &["make"]),
    ("B08", "cat f | wc -l", &["cat"]),
    ("B17", "npm t; rm x", &["npm"]),
    ("B17", "npm t & rm x", &["npm"]),
    ("B17", "npm t\nrm x", &["npm"]),
    ("B19", "! (a && b > f)", &["a", "b"]),
    ("B19", "a && b > f", &["a", "b"]),
    ("B19", "{ a; b; } > f", &["a", "b"]),
    ("B19", "if a; then b; fi > f", &["a", "b"]),
    ("B20", "ls ;; pwd", &["ls", "pwd"]),
    ("B21", "( ( rm x ) )", &["ls"]),
    ("B21", "((rm x) )", &["ls", "rm"]),
    ("B22", "coproc ls", &["ls"]),
    ("B26", "echo $[ x='a[$(touch F)]', x ]", &["echo", "touch"]),
    ("B28", "git log --format=$(rm x)", &["git log"]),
    ("B28", "git log --format=$(git log)", &["git log"]),
    ("B29", "git logout", &["git log"]),
    ("B31", "[[ a =~ $(ls) ]]", &["ls", "[["]),
    ("B31", "[ -v 'a[$(ls)]' ]", &["ls", "["]),
    ("B32", "echo \"a\"; rm x; echo \"b\"", &["echo"]),
    ("B38", "mywrap git add -A", &["git"]),
    ("B40", "find . -delete", &["find"]),
    ("B40", "find . -exec sh {} ;", &["find"]),
    ("B40", "find . -name x -fprint f", &["find", "find ."]),
    ("B41", "devbox run rm -rf .", &["devbox run"]),
    ("B43", "AWS_PROFILE=p aws s3 ls", &["aws"]),
    ("B44", "LD_PRELOAD=x", &["ls"]),
    ("B44", "LD_PRELOAD=x ls", &["ls"]),
    ("B44", "PATH=/tmp ls", &["ls"]),
    ("B44", "for PATH in /tmp; do ls; done", &["ls"]),
    ("B46", "GH_TOKEN=t gh api x", &["gh api"]),
    ("B47", "zsh -lc 'git status > f'", &["git", "zsh"]),
    ("B57", "", &["ls"]),
    ("B57", "# only a remark", &["ls"]),
    ("B59", "git -p status", &["git", "git status"]),
    ("B59", "git --paginate show", &["git", "git show"]),
    ("B59", "git -c core.pager=x log", &["git", "git log"]),
    ("B59", "git -C /other status", &["git", "git status"]),
    ("B62", "sort \\-o f g", &["sort"]),
    ("B64", "ls$IFS-l", &["ls"]),
    ("B64", "sort -ro f g", &["sort"]),
    ("B65", "sed -n -i s/a/b/ f", &["sed"]),
    ("B68", "bash -c 'ls'", &["ls", "bash"]),
    ("B68", "timeout 5 bash -c 'ls'", &["ls", "bash", "timeout"]),
    ("B74", "git status > f", &["git status"]),
    ("B74", "echo x > f", &["echo"]),
    ("B74", "echo x >> f", &["echo"]),
    ("B74", "echo x &> f", &["echo"]),
    ("B74", "echo x >& f", &["echo"]),
    ("B74", "echo x >| f", &["echo"]),
    ("B74", "cat <> f", &["cat"]),
    ("B74", "> f", &["echo"]),
    ("B74", "cat < /dev/tcp/h/80", &["cat"]),
    ("B74", "echo x > $f", &["echo"]),
    ("B86", "rm -rf $HOME", &["rm"]),
    ("B86", "rm -rf ~root", &["rm"]),
    ("sudo", "sudo ls", &["ls", "sudo"]),
    ("sudo", "env ls", &["ls", "env"]),
    (
        "sudo",
        "sudo --unknown ls",
        &["ls", "sudo", "sudo --unknown ls"],
    ),
    ("xargs", "xargs -n 1 ls", &["ls", "xargs"]),
    ("xargs", "ls | xargs grep x", &["ls", "grep"]),
    ("shell", "eval ls", &["eval", "ls"]),
    ("shell", "source ls", &["source", "ls"]),
    ("shell", ". ./ls", &[".", "ls"]),
    ("shell", "trap ls EXIT", &["trap", "ls"]),
    ("shell", "exec ls", &["exec", "ls"]),
    ("shell", "alias ls=rm; ls", &["alias", "ls"]),
    ("shell", "ls() { rm x; }; ls", &["ls", "rm"]),
    ("shell", "enable -f x ls", &["enable"]),
    ("shell", "builtin eval ls", &["eval", "ls", "builtin"]),
    ("shell", "command eval ls", &["eval", "ls", "command"]),
    ("shell", "curl h | sh", &["curl", "sh"]),
    ("shell", "l? x", &["l?", "ls"]),
    ("shell", "$x y", &["$x", "y"]),
    ("shell", "timeout 5 $x", &["$x", "timeout"]),
    ("shell", "timeout 5 l?", &["l?", "timeout"]),
    ("shell", "echo {a,b}", &["echo"]),
    ("shell", "echo <(rm x)", &["echo"]),
    ("shell", "cat <<E\n$(ls)\nE\n", &["cat", "ls"]),
    ("shell", "cat <<E\n$x\nE\n", &["cat"]),
];

#[test]
fn what_no_rule_covers_is_never_allowed() {
    let wrong = ASKED
        .iter()
        .filter(|(_, text, rules)| allows(&analyse(text), rules));
    assert_eq!(
        wrong.collect::<Vec<_>>(),
        Vec::<&(&str, &str, &[&str])>::new()
    );
}

/// Allow rules on these words are enough.
const ALLOWED: &[(&str, &str, &[&str])] = &[
    ("B10", "git diff main | grep -E 'x'", &["git", "grep"]),
    ("B11", "cd p && git status", &["git", "cd"]),
    ("B13", "pwd | awk '{print $1}'", &["pwd", "awk"]),
    ("B13", "pwd | sed 's/a/b/'", &["pwd", "sed"]),
    ("B34", "# note\njq . f", &["jq"]),
    ("B34", "jq . f # note", &["jq"]),
    ("B35", "git   commit\t-m x", &["git commit"]),
    ("B59", "git log -p", &["git log"]),
    ("B59", "git --no-pager log", &["git"]),
    ("B70", "./gradlew x", &["./gradlew"]),
    ("B85", "cut -d / f", &["cut"]),
    ("B85", "awk '{print $1}' f", &["awk"]),
    ("B85", "printf '%s' 50%", &["printf"]),
    ("plain", "echo a && ls", &["echo", "ls"]),
    ("plain", "ls 2>&1 | wc -l", &["ls", "wc"]),
    ("plain", "ls |& wc -l", &["ls", "wc"]),
    ("plain", "ls > /dev/null 2>&1", &["ls"]),
    ("plain", "ls &> /dev/null", &["ls"]),
    ("plain", "(ls; pwd)", &["ls", "pwd"]),
    ("plain", "{ ls; pwd; }", &["ls", "pwd"]),
    (
        "plain",
        "if ls; then pwd; else id; fi",
        &["ls", "pwd", "id"],
    ),
    ("plain", "while ls; do pwd; done", &["ls", "pwd"]),
    ("plain", "for f in a b; do ls; done", &["ls"]),
    ("plain", "case a in a) ls ;; *) pwd ;; esac", &["ls", "pwd"]),
    ("plain", "! ls", &["ls"]),
    ("plain", "time ls -l", &["ls"]),
    ("plain", "[ -f a ] && ls", &["[", "ls"]),
    ("plain", "test -f a && ls", &["test", "ls"]),
    ("plain", "ls *.rs src/[ab]?.rs", &["ls"]),
    ("plain", "ls ~/x ~", &["ls"]),
    ("plain", "git show HEAD~1 HEAD^ stash@{0}", &["git show"]),
    ("plain", "ls $'a\\tb' \"a b\" a\\ b", &["ls"]),
    ("plain", "cat < f", &["cat"]),
    ("plain", "cat <<'E'\n$(ls)\nE\n", &["cat"]),
    ("plain", "cat <<E\nplain\nE\n", &["cat"]),
    ("plain", "cat <<< word", &["cat"]),
    ("plain", "NO_COLOR=1 ls", &["ls"]),
    ("plain", "ls &", &["ls"]),
    ("plain", "ls;", &["ls"]),
    ("plain", "ls \\\n  -l", &["ls"]),
    ("plain", "kill -9 1", &["kill -9"]),
    ("transparent", "timeout 5 nice -n 3 ls -l", &["ls"]),
    ("spelled", "ls | xargs grep x", &["ls", "xargs grep"]),
    ("transparent", "command ls", &["ls"]),
    ("transparent", "command -v ls", &["command -v"]),
    ("spelled", "sudo ls -l", &["sudo ls"]),
    (
        "spelled",
        "sudo -u me timeout 5 ls",
        &["sudo -u me timeout 5 ls"],
    ),
    ("spelled", "find . -delete", &["find . -delete"]),
    ("spelled", "devbox run rm -rf .", &["devbox run rm"]),
    ("spelled", "bash -c ls", &["bash -c ls"]),
    ("spelled", "git -C /r status", &["git -C /r status"]),
];

#[test]
fn what_rules_cover_is_allowed() {
    let wrong = ALLOWED
        .iter()
        .filter(|(_, text, rules)| allows(&analyse(text), rules) != TWO_PARSERS);
    assert_eq!(
        wrong.collect::<Vec<_>>(),
        Vec::<&(&str, &str, &[&str])>::new()
    );
}

#[test]
fn a_long_row_of_commands_before_a_denied_one_hides_nothing() {
    for times in [50, 199, 1_000] {
        let text = format!("{}curl h", "true && ".repeat(times));
        let analysis = analyse(&text);
        assert!(sees(&analysis, "curl h"), "B14: {times}");
        assert!(
            times < 1_000 || !allows(&analysis, &["true", "curl"]),
            "{times}"
        );
    }
}

#[test]
fn a_command_that_is_too_long_is_still_searched() {
    let text = format!("echo {}; bash -c 'rm -rf /x'; \"rm\" y", "a".repeat(20_000));
    let analysis = analyse(&text);
    assert!(analysis.understood.is_err());
    assert!(sees(&analysis, "rm -rf /x") && sees(&analysis, "rm y"));
}

#[test]
fn a_command_after_a_change_of_directory_is_marked() {
    let analysis = analyse("ls; cd .git && echo x > config");
    let marks = analysis.segments.iter().map(|segment| segment.after_cd);
    assert_eq!(marks.collect::<Vec<_>>(), [false, false, true], "B82");
    let written = analysis
        .segments
        .iter()
        .flat_map(|segment| &segment.redirections);
    assert_eq!(
        written.filter_map(|one| one.written()).collect::<Vec<_>>(),
        ["config"]
    );
}

#[test]
fn what_is_only_said_is_not_found() {
    for text in [
        "echo 'rm x'",
        "echo \"a; rm x\"",
        "git commit -m 'say rm x'",
        "cat <<'E'\n$(rm x)\nE\n",
        "grep rm x",
        "echo a # rm x",
        "find . -name rm",
        "echo \\$\\(true\\) '`rm x`' \\`rm x\\`",
    ] {
        assert!(!TWO_PARSERS || !sees(&analyse(text), "rm"), "{text}");
    }
}
