// SPDX-License-Identifier: Apache-2.0

// Package rewrite holds what a configuration changes in requests and responses, in Envoy's words and with Envoy's meaning: host and path
// before a route is looked for (HostRule, PathRule), host and path behind it (HostRewrite, PathRewrite), and headers, in both directions.
//
// Host and path rules are carried out here; the rest is for internal/slowpath, and in part for the kernel, to carry out.
package rewrite
