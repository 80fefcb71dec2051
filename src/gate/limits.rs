//! Every size that a peer can send, with its bound.
//!
//! Plain data with defaults; the config may lower or raise a field up to its ceiling. Never checks
//! anything itself.

use serde::{Deserialize, Serialize};

macro_rules! limits {
    ($( $(#[$doc:meta])* $name:ident : $default:expr, $unit:literal, $ceiling:expr; )*) => {
        /// Bounds on what peers send. One field per limit, its unit in the name.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Limits {
            $( $(#[$doc])* pub $name: u64, )*
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $( $name: $default, )* }
            }
        }

        impl Limits {
            /// Every limit as (name, value, unit, ceiling), in the order of the config.
            pub fn rows(&self) -> Vec<LimitRow> {
                vec![ $( LimitRow {
                    name: stringify!($name),
                    value: self.$name,
                    unit: $unit,
                    ceiling: $ceiling,
                }, )* ]
            }
        }
    };
}

/// One limit, for people and for `GetServerInfo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitRow {
    /// Its name in the config.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
    /// `bytes`, `ms` or `count`.
    pub unit: &'static str,
    /// The most that a config can set.
    pub ceiling: u64,
}

const KIB: u64 = 1024;
const MIB: u64 = 1024 * 1024;

limits! {
    /// Largest gRPC message taken. Default 4 MiB.
    message_bytes_max: 4 * MIB, "bytes", 64 * MIB;
    /// Largest arguments of one call. Default 1 MiB.
    args_bytes_max: MIB, "bytes", 3 * MIB;
    /// Arguments of all calls of a turn together. Default 3 MiB.
    batch_args_bytes_max: 3 * MIB, "bytes", 60 * MIB;
    /// Deepest nesting of arguments and results. Default 64.
    json_depth_max: 64, "count", 100;
    /// Most JSON values in one call's arguments. Default 50 000.
    json_nodes_max: 50_000, "count", 500_000;
    /// Largest result, contents and structured JSON together. Default 1 MiB.
    result_bytes_max: MIB, "bytes", 3 * MIB;
    /// Most parts of a result. Default 64.
    result_parts_max: 64, "count", 1_024;
    /// Largest metadata of a result. Default 64 KiB.
    result_metadata_bytes_max: 64 * KIB, "bytes", MIB;
    /// Longest error text for the model, then cut. Default 4 KiB.
    error_message_bytes_max: 4 * KIB, "bytes", 64 * KIB;
    /// Longest error detail for operators, then cut. Default 16 KiB.
    error_detail_bytes_max: 16 * KIB, "bytes", 64 * KIB;
    /// Most calls of a turn. Default 128.
    calls_max: 128, "count", 1_024;
    /// Largest opaque model message kept with a turn. Default 1 MiB.
    model_message_bytes_max: MIB, "bytes", 3 * MIB;
    /// Largest conversation that comes with a round for a diagnosis. Default 1 MiB.
    history_bytes_max: MIB, "bytes", 3 * MIB;
    /// Longest reason of a cancellation. Default 1 KiB.
    reason_bytes_max: KIB, "bytes", 16 * KIB;
    /// Largest schema of a tool. Default 64 KiB.
    schema_bytes_max: 64 * KIB, "bytes", MIB;
    /// Deepest nesting of a schema. Default 32.
    schema_depth_max: 32, "count", 64;
    /// Most properties in a schema. Default 512.
    schema_properties_max: 512, "count", 10_000;
    /// Longest name of a tool. Default 64.
    tool_name_bytes_max: 64, "bytes", 128;
    /// Longest description of a tool. Default 8 KiB.
    tool_description_bytes_max: 8 * KIB, "bytes", 64 * KIB;
    /// Largest annotations of a tool. Default 16 KiB.
    tool_annotations_bytes_max: 16 * KIB, "bytes", 64 * KIB;
    /// Longest version text of a tool. Default 64.
    tool_version_bytes_max: 64, "bytes", 256;
    /// Most services that a tool names. Default 64.
    tool_services_max: 64, "count", 1_024;
    /// Most tools in one registration message. Default 1 000.
    tools_per_message_max: 1_000, "count", 10_000;
    /// Most tools in the registry. Default 20 000.
    tools_max: 20_000, "count", 200_000;
    /// Most toolsets. Default 1 000.
    toolsets_max: 1_000, "count", 10_000;
    /// Most entries of a toolset's include or exclude list. Default 1 000.
    toolset_entries_max: 1_000, "count", 20_000;
    /// Most connected executors. Default 1 000.
    executors_max: 1_000, "count", 100_000;
    /// Most executions at once that one executor may offer. Default 1 024.
    executor_slots_max: 1_024, "count", 100_000;
    /// Most executions that an executor may list when it comes back. Default 1 024.
    in_flight_max: 1_024, "count", 100_000;
    /// Most calls that wait for a slot, over all executors. Default 4 096.
    waiting_calls_max: 4_096, "count", 1_000_000;
    /// Most questions about calls that one executor has not answered. Beyond it nobody is asked.
    /// Default 256.
    executor_questions_max: 256, "count", 2_048;
    /// Most paths of one call that its executor is asked about; with more it is not asked. Default 256.
    call_facts_max: 256, "count", 4_096;
    /// Longest path that an executor says. A longer one counts as not known. Default 4 KiB.
    fact_bytes_max: 4 * KIB, "bytes", 64 * KIB;
    /// Longest reason that a tool gives for what it says of a call, then cut. Default 1 KiB.
    check_reason_bytes_max: KIB, "bytes", 16 * KIB;
    /// Largest piece of output. Default 64 KiB.
    output_chunk_bytes_max: 64 * KIB, "bytes", MIB;
    /// Output of one call that may be on its way at once. Default 256 KiB.
    output_window_bytes: 256 * KIB, "bytes", 4 * MIB;
    /// Longest progress message, then cut. Default 1 KiB.
    progress_message_bytes_max: KIB, "bytes", 16 * KIB;
    /// Largest progress details, else dropped. Default 16 KiB.
    progress_details_bytes_max: 16 * KIB, "bytes", 256 * KIB;
    /// Most turns that run at once. Default 10 000.
    turns_running_max: 10_000, "count", 1_000_000;
    /// Most calls of one session that wait for approvers. Default 256.
    session_approvals_max: 256, "count", 100_000;
    /// Most calls that wait for approvers, over all sessions. Default 100 000.
    approvals_max: 100_000, "count", 1_000_000;
    /// Most sessions kept in memory; idle ones make room. Default 10 000.
    sessions_max: 10_000, "count", 1_000_000;
    /// Most finished turns whose events are kept in memory, those aside that a
    /// reader has not had the end of. More cost every turn time: their memory is cold. Default 256.
    finished_turns_max: 256, "count", 1_000_000;
    /// Most bytes of finished turns kept in memory. Default 16 MiB.
    finished_turns_bytes_max: 16 * MIB, "bytes", 4_096 * MIB;
    /// Most connections. Default 4 096.
    connections_max: 4_096, "count", 100_000;
    /// Most streams of one connection. Default 256.
    connection_streams_max: 256, "count", 10_000;
    /// Largest header list. Default 16 KiB.
    header_bytes_max: 16 * KIB, "bytes", 64 * KIB;
    /// Most unfinished turns on one turn stream. Default 1 024.
    stream_turns_max: 1_024, "count", 100_000;
    /// Most tool lists that a turn can name. Default 256.
    tool_snapshots_max: 256, "count", 10_000;
}
