// Package callgate registers and runs tools, runs the turns of an agent, decides the calls that
// wait for a person, and answers hooks, all over one sidecar through which every tool call passes.
//
// [Client] is for executors and orchestrators, [Approvals] for approvers, [Hooks] for hook
// processes. Everything that is returned as an error is an [*Error] with a stable code; its kind
// is asked for with [errors.Is] and one of the Err… values. A failing tool is a result, not an
// error. The package callgatetest has a sidecar for tests.
package callgate

// Version of this module, as the sidecar is told it.
const Version = "0.1.0"
