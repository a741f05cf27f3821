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
//
// This package has the commands, and the order of turns (run.go). The rest, each
// package above what it imports:
//
//	report    tables, Markdown, targets, merging; plot draws its SVG
//	bed       one turn: endpoints, a peer, a load, what it cost
//	clients   load generators
//	figures   what a turn measured, summed up over the rounds
//	peers     who is compared, and their configuration files
//	machine   description of the machine
//	cases     what is measured: cases, loads, options
//	tools     where the programs are
//	lab       namespaces, cgroups, processes, processor time
//
// The commands that clients and endpoints are made of have packages of their own:
// load, queue, websocket, chain, control and accept; wrk reads what wrk prints.
// Package heels measures HEELS, with a network and loads of its own; packages pods
// and neighbours measure one XLB that serves the pods of a host. Packages density,
// interference and namespaces compare it there, on the pods that podnet makes.
package main
