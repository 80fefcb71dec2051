//! Who may call what: one table from method to roles, default deny.
//!
//! Credentials are where a request comes from (which Unix socket, whose process) or a bearer token. A
//! method that is not in the table is not served. Never looks into a request's body.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use http::HeaderMap;
use subtle::ConstantTimeEq;

use crate::base::mint::Mint;

/// What a credential allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Runs turns.
    Orchestrator,
    /// Registers and runs tools.
    Executor,
    /// Answers hook invocations.
    Hook,
    /// Sees and decides approvals.
    Approver,
    /// Tools, drain. Decides nothing.
    Admin,
    /// Reads everything.
    Observer,
}

impl Role {
    /// Every role.
    pub const ALL: [Role; 6] = [
        Role::Orchestrator,
        Role::Executor,
        Role::Hook,
        Role::Approver,
        Role::Admin,
        Role::Observer,
    ];

    /// The word in token files and comments.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Orchestrator => "orchestrator",
            Role::Executor => "executor",
            Role::Hook => "hook",
            Role::Approver => "approver",
            Role::Admin => "admin",
            Role::Observer => "observer",
        }
    }
}

/// Who may call a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Callers with one of these roles.
    Roles(&'static [Role]),
    /// Callers with any valid credential.
    AnyCredential,
    /// Everybody: health says nothing but whether we serve.
    Open,
}

use Role::{Admin, Approver, Executor, Observer, Orchestrator};

/// The whole table. The `Roles:` line of each method's comment says the same.
pub const METHODS: &[(&str, Access)] = &[
    (
        "/callgate.v1.TurnService/RunTurn",
        Access::Roles(&[Orchestrator]),
    ),
    (
        "/callgate.v1.TurnService/StreamTurns",
        Access::Roles(&[Orchestrator]),
    ),
    (
        "/callgate.v1.TurnService/AttachTurn",
        Access::Roles(&[Orchestrator, Observer]),
    ),
    (
        "/callgate.v1.TurnService/CancelTurn",
        Access::Roles(&[Orchestrator, Admin]),
    ),
    (
        "/callgate.v1.TurnService/CancelCall",
        Access::Roles(&[Orchestrator, Admin]),
    ),
    (
        "/callgate.v1.TurnService/GetRun",
        Access::Roles(&[Orchestrator, Admin, Observer]),
    ),
    (
        "/callgate.v1.TurnService/GetTurn",
        Access::Roles(&[Orchestrator, Admin, Observer]),
    ),
    (
        "/callgate.v1.TurnService/ListTurns",
        Access::Roles(&[Orchestrator, Admin, Observer]),
    ),
    (
        "/callgate.v1.TurnService/GetCallResult",
        Access::Roles(&[Orchestrator, Admin, Observer]),
    ),
    (
        "/callgate.v1.TurnService/EndRun",
        Access::Roles(&[Orchestrator, Admin]),
    ),
    (
        "/callgate.v1.TurnService/CancelRun",
        Access::Roles(&[Orchestrator, Admin]),
    ),
    (
        "/callgate.v1.ExecutorService/Connect",
        Access::Roles(&[Executor]),
    ),
    (
        "/callgate.v1.RegistryService/ListTools",
        Access::Roles(&[Orchestrator, Admin, Observer]),
    ),
    (
        "/callgate.v1.RegistryService/GetTool",
        Access::Roles(&[Orchestrator, Admin, Observer]),
    ),
    (
        "/callgate.v1.RegistryService/WatchTools",
        Access::Roles(&[Orchestrator, Admin, Observer]),
    ),
    (
        "/callgate.v1.RegistryService/UnregisterTool",
        Access::Roles(&[Admin]),
    ),
    (
        "/callgate.v1.RegistryService/ListExecutors",
        Access::Roles(&[Admin, Observer]),
    ),
    (
        "/callgate.v1.RegistryService/PutToolset",
        Access::Roles(&[Orchestrator, Admin]),
    ),
    (
        "/callgate.v1.RegistryService/CopyToolset",
        Access::Roles(&[Orchestrator, Admin]),
    ),
    (
        "/callgate.v1.RegistryService/ListToolsets",
        Access::Roles(&[Orchestrator, Admin, Observer]),
    ),
    (
        "/callgate.v1.RegistryService/DeleteToolset",
        Access::Roles(&[Orchestrator, Admin]),
    ),
    (
        "/callgate.v1.ApprovalService/ListApprovals",
        Access::Roles(&[Approver, Admin, Observer]),
    ),
    (
        "/callgate.v1.ApprovalService/GetApproval",
        Access::Roles(&[Approver, Admin, Observer]),
    ),
    (
        "/callgate.v1.ApprovalService/WatchApprovals",
        Access::Roles(&[Approver, Admin, Observer]),
    ),
    (
        "/callgate.v1.ApprovalService/DecideApprovals",
        Access::Roles(&[Approver]),
    ),
    (
        "/callgate.v1.SessionService/CreateSession",
        Access::Roles(&[Orchestrator, Admin]),
    ),
    (
        "/callgate.v1.SessionService/GetSession",
        Access::Roles(&[Orchestrator, Approver, Admin, Observer]),
    ),
    (
        "/callgate.v1.SessionService/ListSessions",
        Access::Roles(&[Orchestrator, Approver, Admin, Observer]),
    ),
    (
        "/callgate.v1.SessionService/UpdateSession",
        Access::Roles(&[Orchestrator, Approver, Admin]),
    ),
    (
        "/callgate.v1.SessionService/ForkSession",
        Access::Roles(&[Orchestrator, Admin]),
    ),
    (
        "/callgate.v1.SessionService/CloseSession",
        Access::Roles(&[Orchestrator, Admin]),
    ),
    (
        "/callgate.v1.SessionService/ListGrants",
        Access::Roles(&[Orchestrator, Approver, Admin, Observer]),
    ),
    (
        "/callgate.v1.SessionService/RevokeGrants",
        Access::Roles(&[Approver, Admin]),
    ),
    (
        "/callgate.v1.EventService/Subscribe",
        Access::Roles(&[Orchestrator, Approver, Admin, Observer]),
    ),
    (
        "/callgate.v1.HookService/ConnectHook",
        Access::Roles(&[Role::Hook]),
    ),
    (
        "/callgate.v1.HookService/ListHooks",
        Access::Roles(&[Admin, Observer]),
    ),
    (
        "/callgate.v1.HookService/RemoveHook",
        Access::Roles(&[Admin]),
    ),
    (
        "/callgate.v1.PolicyService/GetPolicy",
        Access::Roles(&[Orchestrator, Approver, Admin, Observer]),
    ),
    (
        "/callgate.v1.PolicyService/ListRules",
        Access::Roles(&[Orchestrator, Approver, Admin, Observer]),
    ),
    (
        "/callgate.v1.PolicyService/CheckRules",
        Access::Roles(&[Orchestrator, Approver, Admin, Observer]),
    ),
    (
        "/callgate.v1.PolicyService/ExplainDecision",
        Access::Roles(&[Orchestrator, Approver, Admin, Observer]),
    ),
    (
        "/callgate.v1.PolicyService/SetWorkspaceTrust",
        Access::Roles(&[Admin]),
    ),
    (
        "/callgate.v1.PolicyService/ReloadPolicy",
        Access::Roles(&[Admin]),
    ),
    (
        "/callgate.v1.AuditService/ListAuditRecords",
        Access::Roles(&[Admin, Observer]),
    ),
    (
        "/callgate.v1.AuditService/WatchAuditRecords",
        Access::Roles(&[Admin, Observer]),
    ),
    (
        "/callgate.v1.AuditService/VerifyAudit",
        Access::Roles(&[Admin, Observer]),
    ),
    (
        "/callgate.v1.AuditService/ExportAudit",
        Access::Roles(&[Admin]),
    ),
    (
        "/callgate.v1.AuditService/ListAuditCheckpoints",
        Access::Roles(&[Admin, Observer]),
    ),
    (
        "/callgate.v1.ServerService/GetServerInfo",
        Access::AnyCredential,
    ),
    (
        "/callgate.v1.ServerService/StartDrain",
        Access::Roles(&[Admin]),
    ),
    ("/grpc.health.v1.Health/Check", Access::Open),
    ("/grpc.health.v1.Health/Watch", Access::Open),
    ("/grpc.health.v1.Health/List", Access::Open),
    (
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        Access::AnyCredential,
    ),
    (
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        Access::AnyCredential,
    ),
];

/// Who sends a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// As the record names it.
    pub principal: Arc<str>,
    /// What it may do.
    pub roles: Arc<[Role]>,
}

/// Who sends a request, as the record names it. Empty: nobody known.
pub(super) fn principal<T>(request: &tonic::Request<T>) -> Arc<str> {
    let caller = request.extensions().get::<Caller>();
    caller.map_or_else(|| Arc::from(""), |caller| caller.principal.clone())
}

impl Caller {
    fn has_any(&self, roles: &[Role]) -> bool {
        self.roles.iter().any(|role| roles.contains(role))
    }
}

/// Where a connection came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Door {
    /// The socket of orchestrators, executors and observers.
    Local {
        /// User id of the process at the other end.
        uid: u32,
    },
    /// The socket of approvers, hooks and administrators.
    Control {
        /// User id of the process at the other end.
        uid: u32,
    },
    /// TCP.
    Tcp,
}

/// Why a request is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// No such method.
    Unknown,
    /// No or no valid credential.
    Unauthenticated,
    /// The credential lacks the role.
    RoleMissing,
}

/// The credentials that hold here.
#[derive(Debug)]
pub struct Gatekeeper {
    methods: BTreeMap<&'static str, Access>,
    tokens: Vec<(Role, String)>,
    uid: u32,
}

impl Gatekeeper {
    /// A gatekeeper with these tokens, for a process of user `uid`.
    pub fn new(tokens: Vec<(Role, String)>, uid: u32) -> Self {
        Self {
            methods: METHODS.iter().copied().collect(),
            tokens,
            uid,
        }
    }

    /// Who a connection's requests come from, where the connection alone tells.
    ///
    /// None: each request needs a token, or the process at the other end is another user's.
    pub fn at_door(&self, door: &Door) -> Option<Caller> {
        let (uid, roles): (u32, &[Role]) = match door {
            Door::Local { uid } => (*uid, &[Orchestrator, Executor, Observer]),
            Door::Control { uid } => (*uid, &[Approver, Role::Hook, Admin]),
            Door::Tcp => return None,
        };
        (uid == self.uid || uid == 0).then(|| Caller {
            principal: Arc::from(format!("uid:{uid}")),
            roles: Arc::from(roles),
        })
    }

    /// Lets a request in, or says why not.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn admit(
        &self,
        path: &str,
        headers: &HeaderMap,
        at_door: Option<&Caller>,
    ) -> Result<Option<Caller>, Refused> {
        let access = *self.methods.get(path).ok_or(Refused::Unknown)?;
        if access == Access::Open {
            return Ok(None);
        }
        let caller = match at_door {
            Some(caller) => caller.clone(),
            None => self.by_token(headers).ok_or(Refused::Unauthenticated)?,
        };
        let allowed = match access {
            Access::Roles(roles) => caller.has_any(roles),
            Access::AnyCredential | Access::Open => true,
        };
        match allowed {
            true => Ok(Some(caller)),
            false => Err(Refused::RoleMissing),
        }
    }

    fn by_token(&self, headers: &HeaderMap) -> Option<Caller> {
        let header = headers.get(http::header::AUTHORIZATION)?.to_str().ok()?;
        let token = header
            .strip_prefix("Bearer ")
            .or_else(|| header.strip_prefix("bearer "))?;
        let mut found = None;
        // Every token is compared, so that time says nothing about which one it was.
        for (role, known) in &self.tokens {
            if bool::from(known.as_bytes().ct_eq(token.trim().as_bytes())) {
                found = Some(*role);
            }
        }
        found.map(|role| Caller {
            principal: Arc::from(format!("token:{}", role.as_str())),
            roles: Arc::from([role]),
        })
    }
}

/// Reads the token of each role, making those that are not there.
///
/// # Errors
/// The directory or a file cannot be read or written.
pub fn load_tokens(dir: &Path) -> std::io::Result<Vec<(Role, String)>> {
    private_dir(dir)?;
    let mut tokens = Vec::new();
    for role in Role::ALL {
        let path = dir.join(format!("{}.token", role.as_str()));
        tokens.push((role, read_or_make_secret(&path)?));
    }
    Ok(tokens)
}

/// Reads a secret of ours, making it if it is not there. Only its owner can read the file.
///
/// # Errors
/// The file cannot be read or written, or is empty.
pub fn read_or_make_secret(path: &Path) -> std::io::Result<String> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    match std::fs::read_to_string(path) {
        Ok(text) if !text.trim().is_empty() => return Ok(text.trim().to_owned()),
        Ok(_) => {
            return Err(std::io::Error::other(format!(
                "`{}` is empty",
                path.display()
            )));
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let secret = Mint::secret();
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    writeln!(file, "{secret}")?;
    file.sync_all()?;
    Ok(secret)
}

/// Makes a directory that only its owner can enter.
///
/// # Errors
/// It cannot be made or narrowed, or something else has its name.
pub fn private_dir(dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    if dir.is_dir() {
        return Ok(());
    }
    // The system would only say that something exists.
    if dir.exists() {
        return Err(std::io::Error::other("it is a file, not a directory"));
    }
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)?;
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))
}
