// SPDX-License-Identifier: Apache-2.0

// Package node is the daemon: it puts the parts together and runs them from a configuration file to an orderly end.
// It is the one package, besides the commands, that knows all others.
package node
