// SPDX-License-Identifier: Apache-2.0

// Package delegate runs an Envoy beside the daemon, with the daemon's own configuration: the delegate. Its listeners are at Unix sockets that it and root alone
// may reach. It runs as a user of its own, without privileges, in a cgroup of its own. A configuration that replaces another gets a process of its own: the
// former one goes on until the new one is ready, so that one which Envoy refuses changes nothing.
package delegate
