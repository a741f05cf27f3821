// SPDX-License-Identifier: Apache-2.0

// Command bench compares XLB with a direct connection and with the balancers
// people use today, on one machine, in one run.
//
// The peers take turns (A B C ... A B C ...), because only figures taken within
// seconds of each other can be compared on a shared machine; ratios are built
// inside each round and summarised afterwards. METHOD.md says what is measured,
// how the peers are set and why.
//
// A turn starts a balancer, warms it up, measures, and stops it: XLB's programs
// see every socket of the workload, so it must not be there while others are
// measured, and then nobody may be.
package main
