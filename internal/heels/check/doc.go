// SPDX-License-Identifier: Apache-2.0

// Package check says whether this machine can run a configuration of HEELS, and what to change: "xlb heels check". It changes nothing.
package check
