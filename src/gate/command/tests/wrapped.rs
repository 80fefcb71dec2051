//! A denied program stays visible whatever is put around it.
//!
//! Never about allow: see the rows for that.

use super::super::analyse;
use super::sees;

const NAMES: &[&str] = &[
    "rm",
    "'rm'",
    "\"rm\"",
    "\\rm",
    "r\\m",
    "r'm'",
    "r\"\"m",
    "$'rm'",
    "$'\\x72m'",
    "$'\\162\\u006d'",
    "/bin/rm",
    "/usr/bin/../bin/rm",
    "r\\\nm",
];

const WRAPPERS: &[&str] = &[
    "",
    "timeout 5 ",
    "timeout -s KILL 5 ",
    "nice ",
    "nice -n 10 ",
    "nohup ",
    "stdbuf -o0 ",
    "time ",
    "command ",
    "builtin ",
    "noglob ",
    "xargs ",
    "xargs -n 1 ",
    "sudo ",
    "sudo -u root ",
    "doas ",
    "env ",
    "env A=b ",
    "env -u A ",
    "setsid ",
    "ionice -c 3 ",
    "flock /l ",
    "exec ",
    "watch ",
    "A=b ",
    "LD_PRELOAD=x ",
    "busybox ",
    "strace ",
    "unshare ",
    "chroot / ",
    "npx ",
    "uv run ",
    "docker exec box ",
    "kubectl exec p -- ",
    "find . -exec ",
    "sudo env timeout 5 nice ",
    "! ",
    "coproc ",
    "eval ",
    "ssh host ",
];

/// `@` stands for the command.
const AROUND: &[&str] = &[
    "@",
    "true; @",
    "@; true",
    "true && @",
    "false || @",
    "true | @",
    "@ | cat",
    "@ &",
    "true & @",
    "true\n@",
    "(@)",
    "( (@) )",
    "{ @; }",
    "(true; (@))",
    "echo $(@)",
    "echo \"$(@)\"",
    "echo \"a $(@) b\"",
    "$(@)",
    "cat <(@)",
    "tee >(@)",
    "x=$(@)",
    "x=$(@) true",
    "if @; then true; fi",
    "if true; then @; fi",
    "if true; then true; else @; fi",
    "while @; do true; done",
    "until true; do @; done",
    "for i in 1; do @; done",
    "for i in $(@); do true; done",
    "case a in a) @ ;; esac",
    "case $(@) in a) ;; esac",
    "f() { @; }; f",
    "[[ -n $(@) ]]",
    "cat <<E\n$(@)\nE\n",
    "cat <<-E\n$(@)\nE\n",
    "cat <<< $(@)",
    "echo ${x:-$(@)}",
    "echo ${x:=\"$(@)\"}",
    "echo $((1 + $(@)))",
    "(( $(@) ))",
    "a[$(@)]=1",
    "a=($(@))",
    "export x=$(@)",
    "echo a > $(@)",
    "echo a > >(@)",
    "@ > f",
    "@ 2>&1",
    "> f @",
    "< f @",
    "true |& @",
    "echo `true` && @",
    "! @",
    "time @",
    "coproc @",
    "coproc c { @; }",
    "# remark\n@",
    "true \\\n&& @",
];

#[test]
fn a_denied_program_is_visible_in_every_construct() {
    let mut missed = Vec::new();
    for around in AROUND {
        for wrapper in WRAPPERS {
            // Behind a redirection these are names of programs, which do not exist.
            if around.starts_with(['<', '>']) && ["! ", "coproc "].contains(wrapper) {
                continue;
            }
            let text = around.replace('@', &format!("{wrapper}rm -rf /x"));
            if !sees(&analyse(&text), "rm -rf /x") {
                missed.push(text);
            }
        }
    }
    assert_eq!(missed, Vec::<String>::new());
}

#[test]
fn a_denied_program_is_visible_in_every_quoting() {
    let mut missed = Vec::new();
    for around in AROUND {
        for name in NAMES {
            for arguments in [
                "-rf /x",
                "-r -f /x",
                "-fr '/x'",
                "--recursive --force \"/x\"",
            ] {
                let text = around.replace('@', &format!("{name} {arguments}"));
                if !sees(&analyse(&text), "rm -rf /x") {
                    missed.push(text);
                }
            }
        }
    }
    assert_eq!(missed, Vec::<String>::new());
}

#[test]
fn a_denied_program_is_visible_in_every_script() {
    let scripts = [
        "sh -c '@'",
        "bash -lc '@'",
        "bash -c -e '@'",
        "bash -o pipefail -c '@'",
        "/bin/sh -c '@'",
        "eval '@'",
        "trap '@' EXIT",
        "env -S '@'",
        "su -c '@'",
        "sudo sh -c '@'",
        "xargs sh -c '@'",
        "find . -exec sh -c '@' ;",
        "timeout 5 sh -c '@'",
        "flock /l -c '@'",
        "watch '@'",
        "ssh host '@'",
        "bash <<< '@'",
        "echo '@' | bash",
        "bash <<'E'\n@\nE\n",
        "nix-shell --run '@'",
        "parallel '@'",
        "script -c '@' /dev/null",
        "docker exec box sh -c '@'",
        "alias x='@'",
    ];
    let mut missed = Vec::new();
    for script in scripts {
        // In single quotes they cannot be quoted with these themselves.
        for around in AROUND.iter().filter(|around| !around.contains("<<")) {
            let inner = around.replace('@', "rm -rf /x");
            let text = script.replace('@', &inner);
            if !sees(&analyse(&text), "rm -rf /x") {
                missed.push(text);
            }
        }
    }
    assert_eq!(missed, Vec::<String>::new());
}
