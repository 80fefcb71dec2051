// Package callgatetest tests tools, orchestrators and approvers without a sidecar and without a network.
//
// [CallTool] runs one tool directly. [New] makes a sidecar in memory that goes the whole way over
// streams, with progress, output, cancellation, lost connections and calls that wait. It checks no
// schema and asks no permission: that is the sidecar's own work.
package callgatetest
