// SPDX-License-Identifier: Apache-2.0

// Package healthctl watches over the endpoints of the configuration in force by the rules of package health: it takes in the results of requests, of the
// kernel and of the daemon (outlier.go), makes active checks (checks.go), and has endpoints taken out of service and back (manager.go).
package healthctl
