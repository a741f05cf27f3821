// SPDX-License-Identifier: Apache-2.0

// Package balance compares how Envoy and XLB share requests among the endpoints of a cluster: random clusters of priorities, localities, weights
// and states of health are given to a real Envoy, which serves requests, and to XLB's compiled form, which says what share each endpoint is
// due, and to the picker that follows it.
package balance
