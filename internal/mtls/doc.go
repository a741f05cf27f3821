// SPDX-License-Identifier: Apache-2.0

// Package mtls secures connections to endpoints: it keeps the secrets that they need, shakes hands, and looks at the certificates of servers as
// Envoy does.
package mtls
