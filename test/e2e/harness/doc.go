// SPDX-License-Identifier: Apache-2.0

// Package harness runs XLB, real servers and real clients for the end-to-end
// tests, and takes everything down again.
//
// A Place is a cgroup, perhaps in a network namespace of its own. Processes
// start inside a Place; the test process stays outside all of them, so that
// nothing it does is balanced. With XLB_E2E_PEER=envoy a real Envoy takes the
// place of XLB, with the same configuration: what passes there shows that the
// test asks for the right thing.
//
// Tests that wait most of the time call Beside, and run side by side.
//
// Environment:
//
//	XLB_BIN               the binary to test, default bin/xlb of this repository
//	XLB_E2E_PEER=envoy    test Envoy instead
//	XLB_ENVOY             Envoy's binary, default "envoy" in PATH
//	XLB_REQUIRE_CLIENTS   fail instead of skipping where a client is missing
package harness
