//! The panel in a terminal, driven as a person drives it: keys in, text on the screen out.
//!
//! A tmux server of the test's own. Waits for what is to be seen, never for time to pass. Never leaves a
//! process behind.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use tokio::process::Command;

use super::soon;

/// What the pane runs: the panel, then what became of the terminal.
const SCRIPT: &str = r#"sh -c 'echo $$ > "$0/pid"; exec "$1" approvals watch' "$0" "$1"
echo "left with $?"
stty -a | tr ' ;' '\n\n' | grep -x -e '-*icanon' -e '-*echo'
cat"#;

const CONFIG: &str = "set -g status off
set -g escape-time 0
set -g default-terminal tmux-256color
";

/// A terminal with the panel in it.
pub(crate) struct Panel {
    home: PathBuf,
}

impl Panel {
    /// Starts the panel in a terminal of this size, on the sockets of `socket_dir`.
    pub(crate) async fn start(home: &Path, socket_dir: &Path, size: (u16, u16)) -> Self {
        Self::start_with(home, socket_dir, size, &[]).await
    }

    /// The same with variables of its environment.
    pub(crate) async fn start_with(
        home: &Path,
        socket_dir: &Path,
        (columns, rows): (u16, u16),
        variables: &[&str],
    ) -> Self {
        let panel = Self {
            home: home.to_owned(),
        };
        std::fs::write(home.join("tmux.conf"), CONFIG).unwrap();
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let sockets = format!("CALLGATE_SOCKET_DIR={}", socket_dir.display());
        let home = home.to_str().unwrap();
        let size = ["-x", &columns, "-y", &rows];
        let mut words = vec!["new-session", "-d"];
        words.extend(size);
        words.extend(["-e", &sockets]);
        words.extend(variables.iter().flat_map(|variable| ["-e", *variable]));
        words.extend(["sh", "-c", SCRIPT, home, env!("CARGO_BIN_EXE_callgate")]);
        panel.tmux(&words).await;
        panel
    }

    async fn tmux(&self, words: &[&str]) -> String {
        let output = self.command(words).output().await;
        let output: Output = match output {
            Ok(output) => output,
            Err(error) => panic!("tmux cannot be run ({error}): apt-get install tmux"),
        };
        let problem = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tmux {words:?}: {problem}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command
            .arg("-S")
            .arg(self.home.join("tmux.sock"))
            .arg("-f")
            .arg(self.home.join("tmux.conf"))
            .arg("-u")
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.home)
            .env("LANG", "C.UTF-8")
            .stdin(Stdio::null());
        command
    }

    /// What is on the screen now.
    pub(crate) async fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"]).await
    }

    /// The same with the escapes that style it.
    pub(crate) async fn styled_screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"]).await
    }

    /// Waits until all of this is on the screen. Gives it back.
    pub(crate) async fn shows(&self, texts: &[&str]) -> String {
        let mut last = String::new();
        let waiting = async {
            loop {
                last = self.screen().await;
                if texts.iter().all(|text| last.contains(text)) {
                    return;
                }
            }
        };
        if tokio::time::timeout(super::PATIENCE, waiting)
            .await
            .is_err()
        {
            panic!("waited in vain for {texts:?} on\n{last}");
        }
        last
    }

    /// Presses keys by tmux's names, e.g. `Enter`, `Down`, `C-c`, `a`.
    pub(crate) async fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat()).await;
    }

    /// Types a text letter by letter.
    pub(crate) async fn types(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]).await;
    }

    /// Pastes a text, marked as such if the program asked for that.
    pub(crate) async fn paste(&self, text: &str) {
        self.tmux(&["set-buffer", text]).await;
        self.tmux(&["paste-buffer", "-p"]).await;
    }

    /// Gives the terminal another size.
    pub(crate) async fn resize(&self, columns: u16, rows: u16) {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        self.tmux(&["resize-window", "-x", &columns, "-y", &rows])
            .await;
    }

    /// Sends the panel a signal.
    pub(crate) async fn signal(&self, name: &str) {
        let pid = std::fs::read_to_string(self.home.join("pid")).unwrap();
        let mut kill = Command::new("kill");
        let sent = kill.args([name, pid.trim()]).status();
        assert!(soon("a signal", sent).await.unwrap().success());
    }

    /// Waits until the panel has ended with that code and the terminal is as it was before.
    pub(crate) async fn left(&self, code: i32) -> String {
        let left = format!("left with {code}");
        let screen = self.shows(&[&left, "\nicanon", "\necho"]).await;
        let flags = "#{alternate_on} #{cursor_flag} #{bracket_paste_flag}";
        let flags = self.tmux(&["display-message", "-p", flags]).await;
        // This tmux may not know the last one, and then says nothing of it.
        assert!(["0 1", "0 1 0"].contains(&flags.trim()), "{flags}");
        screen
    }
}

impl Drop for Panel {
    fn drop(&mut self) {
        let mut command = self.command(&["kill-server"]).into_std();
        drop(command.output());
    }
}
