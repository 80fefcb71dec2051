//! Who may call what: every method with every credential at every door, and what starts at all.
//!
//! Walks the descriptors, so that no method can be forgotten.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use callgate::server::access::{Access, METHODS, Role};
use callgate_client::connect::{AuthorizedChannel, Target};
use callgate_client::pb::v1 as pb;
use prost::Message;
use tonic::{Code, Status};

use super::support::failure::code;
use super::support::orchestrator::{Orchestrator, turn};
use super::support::sidecar::{Setup, Sidecar, home, refuses_to_start};
use super::support::soon;

/// `google.protobuf.FileDescriptorSet`, as much as is walked here.
#[derive(Clone, PartialEq, Message)]
struct FileSet {
    #[prost(message, repeated, tag = "1")]
    files: Vec<File>,
}

#[derive(Clone, PartialEq, Message)]
struct File {
    #[prost(string, tag = "2")]
    package: String,
    #[prost(message, repeated, tag = "6")]
    services: Vec<Service>,
}

#[derive(Clone, PartialEq, Message)]
struct Service {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    methods: Vec<Method>,
}

#[derive(Clone, PartialEq, Message)]
struct Method {
    #[prost(string, tag = "1")]
    name: String,
}

/// The path of every method that the descriptors have.
fn described() -> Vec<String> {
    let files = FileSet::decode(callgate::pb::DESCRIPTORS).unwrap().files;
    let mut paths = Vec::new();
    for file in &files {
        for service in &file.services {
            let methods = service.methods.iter();
            paths.extend(
                methods.map(|method| format!("/{}.{}/{}", file.package, service.name, method.name)),
            );
        }
    }
    paths.sort();
    paths
}

fn ours() -> BTreeMap<&'static str, Access> {
    let own = METHODS.iter().copied();
    own.filter(|(path, _)| path.starts_with("/callgate."))
        .collect()
}

/// The words of the `Roles:` line of every method, out of the contract's own comments.
fn commented() -> BTreeMap<String, String> {
    let mut roles = BTreeMap::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto/callgate/v1");
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let (mut service, mut said) = (String::new(), None);
        for line in text.lines().map(str::trim) {
            let words: Vec<&str> = line.split([' ', '(', '{']).collect();
            match words.as_slice() {
                ["//", "Roles:", ..] => {
                    let list = line.trim_start_matches("// Roles:").trim();
                    said = Some(list.trim_end_matches('.').to_owned());
                }
                ["service", name, ..] => service = format!("/callgate.v1.{name}"),
                ["rpc", name, ..] => {
                    let said = said
                        .take()
                        .unwrap_or_else(|| panic!("`{name}` names no roles"));
                    roles.insert(format!("{service}/{name}"), said);
                }
                _ => {}
            }
        }
    }
    roles
}

fn in_words(access: Access) -> String {
    match access {
        Access::Roles(roles) => {
            let words: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
            words.join(", ")
        }
        Access::AnyCredential => "any valid credential".to_owned(),
        Access::Open => "everybody".to_owned(),
    }
}

#[test]
fn every_method_has_its_roles_in_the_table_and_the_comments_say_the_same() {
    let table: BTreeMap<String, String> = ours()
        .into_iter()
        .map(|(path, access)| (path.to_owned(), in_words(access)))
        .collect();
    assert_eq!(described(), table.keys().cloned().collect::<Vec<_>>());
    assert_eq!(commented(), table);
}

/// Who knocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Credential {
    NoToken,
    WrongToken,
    Token(Role),
    LocalSocket,
    ControlSocket,
}

impl Credential {
    fn all() -> Vec<Self> {
        let tokens = Role::ALL.into_iter().map(Credential::Token);
        let others = [
            Credential::NoToken,
            Credential::WrongToken,
            Credential::LocalSocket,
            Credential::ControlSocket,
        ];
        others.into_iter().chain(tokens).collect()
    }

    /// The roles that it brings. None: it is none.
    fn roles(self) -> Option<Vec<Role>> {
        match self {
            Credential::NoToken | Credential::WrongToken => None,
            Credential::Token(role) => Some(vec![role]),
            Credential::LocalSocket => {
                Some(vec![Role::Orchestrator, Role::Executor, Role::Observer])
            }
            Credential::ControlSocket => Some(vec![Role::Approver, Role::Hook, Role::Admin]),
        }
    }

    async fn channel(self, sidecar: &Sidecar) -> AuthorizedChannel {
        let token = match self {
            Credential::LocalSocket => return sidecar.channel().await,
            Credential::ControlSocket => return sidecar.control_channel().await,
            Credential::NoToken => None,
            Credential::WrongToken => Some("0123456789abcdef".to_owned()),
            Credential::Token(role) => Some(sidecar.token(role.as_str())),
        };
        let target = Target {
            endpoint: Some(sidecar.tcp()),
            token,
        };
        soon("a connection", target.connect()).await.unwrap()
    }

    /// What the gate must say to it.
    fn expected(self, access: Access) -> Option<(Code, &'static str)> {
        let Some(roles) = self.roles() else {
            return Some((Code::Unauthenticated, "credential_invalid"));
        };
        match access {
            Access::Roles(allowed) if !roles.iter().any(|role| allowed.contains(role)) => {
                Some((Code::PermissionDenied, "role_missing"))
            }
            Access::Roles(_) | Access::AnyCredential | Access::Open => None,
        }
    }
}

/// Calls a method of any kind with an empty message. An error: its status, at once or at the end.
async fn knock(channel: AuthorizedChannel, path: &'static str) -> Result<(), Status> {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let request = tonic::Request::new(tokio_stream::once(()));
    let codec = tonic_prost::ProstCodec::<(), ()>::default();
    let answered = client
        .streaming(request, path.parse().unwrap(), codec)
        .await?;
    answered.into_inner().message().await.map(|_| ())
}

#[tokio::test]
async fn every_method_lets_in_exactly_whom_the_table_names() {
    let sidecar = Setup::default()
        .set("server.tcp", "127.0.0.1:0")
        .start()
        .await;
    for credential in Credential::all() {
        let channel = credential.channel(&sidecar).await;
        for (path, access) in ours() {
            let expected = credential.expected(access);
            // Who may end the sidecar is looked at last.
            if path.ends_with("/StartDrain") && expected.is_none() {
                continue;
            }
            let answered = soon(path, knock(channel.clone(), path)).await;
            let refused = answered.err().filter(|status| {
                let code = status.code();
                let gate = [
                    Code::Unauthenticated,
                    Code::PermissionDenied,
                    Code::Unimplemented,
                ];
                gate.contains(&code)
            });
            let refused = refused.map(|status| (status.code(), code(&status)));
            let expected = expected.map(|(status, code)| (status, code.to_owned()));
            assert_eq!(refused, expected, "{credential:?} at {path}");
        }
    }
}

#[tokio::test]
async fn an_administrator_may_end_the_sidecar_with_a_token_and_at_the_control_socket() {
    for credential in [Credential::Token(Role::Admin), Credential::ControlSocket] {
        let setup = Setup::default().set("server.tcp", "127.0.0.1:0");
        let mut sidecar = setup.start().await;
        let channel = credential.channel(&sidecar).await;
        let path = "/callgate.v1.ServerService/StartDrain";
        soon(path, knock(channel, path)).await.unwrap();
        assert!(sidecar.exited().await.success());
    }
}

#[tokio::test]
async fn an_unknown_method_is_not_served_to_anybody() {
    let sidecar = Setup::default()
        .set("server.tcp", "127.0.0.1:0")
        .start()
        .await;
    for credential in Credential::all() {
        for path in [
            "/callgate.v1.TurnService/Nothing",
            "/",
            "/callgate.v2.TurnService/RunTurn",
        ] {
            let channel = credential.channel(&sidecar).await;
            let status = soon(path, knock(channel, path)).await.unwrap_err();
            assert_eq!(
                status.code(),
                Code::Unimplemented,
                "{credential:?} at {path}"
            );
        }
    }
}

#[tokio::test]
async fn health_is_told_to_everybody() {
    let sidecar = Setup::default()
        .set("server.tcp", "127.0.0.1:0")
        .start()
        .await;
    for credential in [
        Credential::NoToken,
        Credential::LocalSocket,
        Credential::ControlSocket,
    ] {
        let channel = credential.channel(&sidecar).await;
        let path = "/grpc.health.v1.Health/Check";
        soon(path, knock(channel, path)).await.unwrap();
    }
}

#[tokio::test]
async fn the_caller_is_told_who_it_is() {
    let sidecar = Setup::default()
        .set("server.tcp", "127.0.0.1:0")
        .start()
        .await;
    for credential in Credential::all() {
        let Some(roles) = credential.roles() else {
            continue;
        };
        let caller = Orchestrator::over(credential.channel(&sidecar).await);
        let request = pb::GetServerInfoRequest {};
        let info = caller
            .server
            .clone()
            .get_server_info(request)
            .await
            .unwrap()
            .into_inner();
        let named: Vec<String> = info
            .caller_roles()
            .map(|role| {
                role.as_str_name()
                    .trim_start_matches("ROLE_")
                    .to_lowercase()
            })
            .collect();
        let expected: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
        assert_eq!(named, expected);
        match credential {
            Credential::Token(role) => {
                assert_eq!(info.caller_principal, format!("token:{}", role.as_str()));
            }
            Credential::LocalSocket | Credential::ControlSocket => {
                assert!(info.caller_principal.starts_with("uid:"));
            }
            Credential::NoToken | Credential::WrongToken => unreachable!(),
        }
        assert_eq!(info.state(), pb::ServerState::Serving);
    }
}

#[tokio::test]
async fn secrets_and_sockets_are_the_owners_only() {
    let sidecar = Sidecar::start().await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let data = sidecar.data_dir();
    for dir in [
        &data,
        &data.join("tokens"),
        sidecar.socket().parent().unwrap(),
    ] {
        assert_eq!(mode(dir), 0o700, "{}", dir.display());
    }
    let mut tokens = Vec::new();
    for role in Role::ALL {
        let path = data.join(format!("tokens/{}.token", role.as_str()));
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        tokens.push(sidecar.token(role.as_str()));
    }
    assert_eq!(mode(&data.join("resume.secret")), 0o600);
    assert_eq!(mode(&sidecar.socket()), 0o600);
    assert_eq!(mode(&sidecar.control_socket()), 0o600);
    // Each its own, and long enough.
    tokens.sort();
    tokens.dedup();
    assert_eq!(tokens.len(), 6);
    assert!(tokens.iter().all(|token| token.len() >= 32));
    // The next process keeps them.
    let sidecar = sidecar.crash_and_restart(Setup::default()).await;
    assert!(tokens.contains(&sidecar.token("admin")));
}

#[tokio::test]
async fn plaintext_beyond_this_machine_is_refused() {
    for address in ["0.0.0.0:0", "[::]:0", "10.0.0.1:50551"] {
        let home = home();
        let setup = Setup::default().set("server.tcp", address);
        let (exit, said) = refuses_to_start(setup, home.path()).await;
        assert_eq!(exit, Some(2), "{said}");
        assert!(
            said.contains("loopback") && said.contains(address),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_socket_path_that_is_too_long_is_named() {
    let home = home();
    let long = home.path().join("x".repeat(100));
    let setup = Setup::default().env("CALLGATE_SOCKET_DIR", long.to_str().unwrap());
    let (exit, said) = refuses_to_start(setup, home.path()).await;
    assert_eq!(exit, Some(2), "{said}");
    assert!(
        said.contains("callgate.sock` has more than 107 bytes"),
        "{said}"
    );
}

#[tokio::test]
async fn an_unknown_key_and_a_value_out_of_range_stop_the_start() {
    for (key, value) in [
        ("server.tpc", "127.0.0.1:0"),
        ("limits.calls_max", "0"),
        ("limits.calls_max", "1025"),
        ("stream.ping_interval_ms", "0"),
    ] {
        let home = home();
        let setup = Setup::default().set(key, value);
        let (exit, said) = refuses_to_start(setup, home.path()).await;
        assert_eq!(exit, Some(64), "{key}={value}: {said}");
        let name = key.rsplit('.').next().unwrap();
        assert!(said.contains(name), "{key}={value}: {said}");
    }
}

#[tokio::test]
async fn a_failure_that_may_pass_says_when_to_come_back() {
    let setup = Setup::default().set("limits.turns_running_max", 1);
    let (_sidecar, mut executor, orchestrator) =
        super::support::set_up(setup, [super::support::tools::echo()]).await;
    let call = super::support::orchestrator::call("c", "echo", "{}");
    let mut events = orchestrator.run(turn("t", [call])).await;
    let work = executor.work().await;
    let status = orchestrator.refused(turn("u", [])).await;
    assert_eq!(
        (status.code(), code(&status).as_str()),
        (Code::ResourceExhausted, "overloaded")
    );
    let details = status.details();
    let retry = b"type.googleapis.com/google.rpc.RetryInfo";
    assert!(details.windows(retry.len()).any(|window| window == retry));
    executor.answer_text(&work, "").await;
    events.completed().await;
    orchestrator.run_to_end(turn("u", [])).await;
}
