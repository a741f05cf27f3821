// SPDX-License-Identifier: Apache-2.0

// Package dns finds the endpoints of StrictDNS and LogicalDNS clusters and keeps them up to
// date. Client asks servers, Resolver looks names up again and again and reports changes; Merge
// puts what it reported into a configuration.
package dns
