//! The audit of a running sidecar: what it says, who may read it, and that it survives.
//!
//! Never waits for a clock.

mod command_line;
mod dying;
mod keys;
mod reading;
mod retained;

use callgate_client::pb::v1 as pb;
use callgate_client::pb::v1::audit_service_client::AuditServiceClient;

use super::support::sidecar::Sidecar;
use super::support::soon;

pub(crate) type Client = AuditServiceClient<callgate_client::connect::AuthorizedChannel>;

/// As an administrator.
pub(crate) async fn admin(sidecar: &Sidecar) -> Client {
    AuditServiceClient::new(sidecar.control_channel().await).max_decoding_message_size(64 << 20)
}

/// Every record that fits, oldest first.
pub(crate) async fn records(client: &mut Client, filter: pb::AuditFilter) -> Vec<pb::AuditRecord> {
    let mut found = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = pb::ListAuditRecordsRequest {
            filter: Some(filter.clone()),
            page_size: 3,
            page_token,
        };
        let page = client.list_audit_records(request).await.unwrap();
        let page = page.into_inner();
        found.extend(page.records);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            found.reverse();
            return found;
        }
    }
}

fn kinds(records: &[pb::AuditRecord]) -> Vec<&str> {
    records.iter().map(|record| record.kind.as_str()).collect()
}

/// Waits until records of that kind are written.
pub(crate) async fn until_kind(client: &mut Client, kind: &str) -> Vec<pb::AuditRecord> {
    let filter = pb::AuditFilter {
        kinds: vec![kind.to_owned()],
        ..pb::AuditFilter::default()
    };
    let found = async {
        loop {
            let found = records(client, filter.clone()).await;
            if !found.is_empty() {
                return found;
            }
        }
    };
    soon(kind, found).await
}
