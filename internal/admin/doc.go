// SPDX-License-Identifier: Apache-2.0

// Package admin serves the admin API: HTTP on an address of the operator's
// choice, by default on the loopback interface.
//
// Paths and shapes are Envoy's where Envoy has them (/ready, /config_dump, /clusters,
// /listeners, /stats, /stats/prometheus), so that tools made for Envoy can read them;
// /xlb/ holds the rows that "xlb get" prints, and the account of a request that "xlb
// explain" does (/xlb/explain, see explain.QueryOf and explain.Answer). What POST changes lasts until the
// daemon ends: the level of the log, and which network namespaces are served.
package admin
